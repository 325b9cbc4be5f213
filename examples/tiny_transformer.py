"""A transformer small enough to train on two CPU cores, and its generated data."""

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn import functional

VOCABULARY = 64
SEQUENCE = 8
BATCH = 2


class Block(nn.Module):
    """Pre-norm attention and feed-forward on [batch, sequence, width], called one by one."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, sequence, width = x.shape
        qkv = self.query_key_value(self.attention_norm(x))
        qkv = qkv.view(batch, sequence, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return x + self.projection(mixed.transpose(1, 2).reshape(batch, sequence, width))

    def feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.contract(functional.gelu(self.expand(self.feed_forward_norm(x))))


class TinyTransformer(nn.Module):
    """Next-token model; with `side_stream` set, every feed-forward part runs on that stream.

    The hand-over between the streams is complete: each side waits for the other, and tensors that
    cross are recorded on the stream that uses them. What races in a run is not in this file.
    """

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.side_stream: torch.cuda.Stream | None = None
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(layers)])
        self.final_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the mean cross entropy of the next token; `tokens` is int64 [batch, sequence]."""
        x = self.embedding(tokens[:, :-1])
        for block in self.blocks:
            x = self._on_side_stream(block.feed_forward, block.attend(x))
        logits = self.head(self.final_norm(x))
        return functional.cross_entropy(
            logits.reshape(-1, VOCABULARY).float(), tokens[:, 1:].reshape(-1)
        )

    def _on_side_stream(
        self, part: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
    ) -> torch.Tensor:
        if self.side_stream is None:
            return part(x)
        compute_stream = torch.cuda.current_stream()
        self.side_stream.wait_stream(compute_stream)
        with torch.cuda.stream(self.side_stream):
            x.record_stream(self.side_stream)
            result = part(x)
        compute_stream.wait_stream(self.side_stream)
        result.record_stream(compute_stream)
        return result


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Make what is created inside depend on `seed` only, and leave the caller's state alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def build_model(*, layers: int, width: int, seed: int) -> TinyTransformer:
    """Return the model on the CPU in float32, the same on every rank for one seed."""
    with seeded(seed):
        return TinyTransformer(layers, width)


def tokens_for(*, step: int, rank: int, seed: int) -> torch.Tensor:
    """Return one rank's tokens for one step: int64 [BATCH, SEQUENCE + 1] on the CPU."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step * 1_009 + rank)
    return torch.randint(VOCABULARY, (BATCH, SEQUENCE + 1), generator=generator)
