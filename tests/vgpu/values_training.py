"""Trains small models on one device; runs in a process on the virtual GPU."""

from __future__ import annotations

from typing import Any


def perceptron(optimizer: str, device: str) -> dict[str, list[Any]]:
    """Train 5 steps with AdamW ("fused", "foreach" or "single") and clipped gradients."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
    model.to(device)
    step = torch.optim.AdamW(
        model.parameters(), lr=1e-2, fused=optimizer == "fused", foreach=optimizer == "foreach"
    )
    losses = []
    for seed in range(5):
        torch.manual_seed(seed)
        inputs, targets = torch.randn(8, 16).to(device), torch.randint(0, 4, (8,)).to(device)
        loss = nn.functional.cross_entropy(model(inputs), targets)
        step.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        step.step()
        losses.append(loss.item())
    return {"losses": losses, "parameters": _numbers(model)}


def transformer(precision: str, optimizer: str, device: str) -> dict[str, list[Any]]:
    """Train a two-layer causal transformer 4 steps in "float32", "autocast" or "bfloat16"."""
    import torch
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.manual_seed(0)
    model = _language_model()
    if precision == "bfloat16":
        model = model.bfloat16()
    model = model.to(device)
    step = torch.optim.AdamW(
        model.parameters(), lr=1e-3, fused=optimizer == "fused", foreach=optimizer == "foreach"
    )
    losses = []
    for seed in range(4):
        torch.manual_seed(seed)
        tokens = torch.randint(0, 50, (2, 16)).to(device)
        # The math form is the one that both devices have.
        with (
            sdpa_kernel(SDPBackend.MATH),
            torch.autocast(device, torch.bfloat16, enabled=precision == "autocast"),
        ):
            logits = model(tokens)
            loss = functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(loss.item())
    return {"losses": losses, "parameters": _numbers(model)}


def _numbers(model: Any) -> list[Any]:
    return [parameter.detach().float().cpu().tolist() for parameter in model.parameters()]


def _language_model() -> Any:
    import torch
    from torch import nn
    from torch.nn.functional import scaled_dot_product_attention

    width, heads = 32, 4

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.feed = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            qkv = self.qkv(self.norms[0](x)).view(batch, length, 3, heads, width // heads)
            query, key, value = qkv.permute(2, 0, 3, 1, 4)
            attended = scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
            return x + self.feed(self.norms[1](x))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(50, width), nn.Embedding(16, width)
            self.blocks = nn.Sequential(Block(), Block())
            self.head = nn.Linear(width, 50)

        def forward(self, tokens: Any) -> Any:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
            return self.head(self.blocks(self.tokens(tokens) + self.positions(positions)))

    return Model()
