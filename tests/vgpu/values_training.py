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


def convolutional(device: str) -> dict[str, list[Any]]:
    """Train convolutions with batch norm and pooling 4 steps with SGD and momentum."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    ).to(device)  # fmt: skip
    step = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    losses = []
    for seed in range(4):
        torch.manual_seed(seed)
        images, targets = torch.randn(4, 3, 12, 12).to(device), torch.randint(0, 5, (4,)).to(device)
        loss = nn.functional.cross_entropy(model(images), targets)
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        losses.append(model(images).sum().item())  # what the running statistics are for
    return {"losses": losses, "parameters": _numbers(model), "buffers": _numbers(model, "buffers")}


def recurrent(kind: str, device: str) -> dict[str, list[Any]]:
    """Train two layers of "LSTM" or "GRU", both directions, over packed sequences, 4 steps."""
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    torch.manual_seed(0)
    table, head = nn.Embedding(20, 6).to(device), nn.Linear(16, 20).to(device)
    layers = getattr(nn, kind)(6, 8, num_layers=2, bidirectional=True, batch_first=True).to(device)
    model = nn.ModuleList([table, layers, head])
    step = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for seed in range(4):
        torch.manual_seed(seed)
        tokens = torch.randint(0, 20, (3, 7)).to(device)
        packed = pack_padded_sequence(table(tokens), torch.tensor([7, 5, 4]), batch_first=True)
        outputs, _ = pad_packed_sequence(layers(packed)[0], batch_first=True)
        loss = nn.functional.cross_entropy(head(outputs).flatten(0, 1), tokens.flatten())
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(loss.item())
    return {"losses": losses, "parameters": _numbers(model)}


def scaled(device: str) -> dict[str, list[Any]]:
    """Train in autocast float16 with a gradient scaler that starts too high and backs off."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
    step = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**24, growth_interval=3)
    losses, scales = [], []
    for seed in range(14):
        torch.manual_seed(seed)
        inputs, targets = torch.randn(8, 8).to(device), torch.randint(0, 4, (8,)).to(device)
        with torch.autocast(device, torch.float16):
            logits = model(inputs)
        loss = nn.functional.cross_entropy(logits.float(), targets)
        step.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(step)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(step)
        scaler.update()
        losses.append(loss.item())
        scales.append(scaler.get_scale())
    return {"losses": losses, "scales": scales, "parameters": _numbers(model)}


def compiled(backend: str, device: str) -> dict[str, list[Any]]:
    """Train the perceptron's shape 3 steps through torch.compile."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
    model.to(device)
    run = torch.compile(model, backend=backend)
    step = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    losses = []
    for seed in range(3):
        torch.manual_seed(seed)
        inputs, targets = torch.randn(8, 16).to(device), torch.randint(0, 4, (8,)).to(device)
        loss = nn.functional.cross_entropy(run(inputs), targets)
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(loss.item())
    return {"losses": losses, "parameters": _numbers(model)}


def _numbers(model: Any, of: str = "parameters") -> list[Any]:
    return [tensor.detach().float().cpu().tolist() for tensor in getattr(model, of)()]


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
