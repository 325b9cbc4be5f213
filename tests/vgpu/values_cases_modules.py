"""Cases: layers and losses."""

from __future__ import annotations

from typing import Any

from tests.vgpu.values_cases import case

Made = tuple[Any, list[Any]]


@case()
def linear_and_gelu(torch: Any) -> Made:
    nn = torch.nn
    return nn.Sequential(nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 2)), [torch.randn(4, 8)]


@case()
def layer_norm_bf16(torch: Any) -> Made:
    return torch.nn.LayerNorm(8).bfloat16(), [torch.randn(4, 8).bfloat16()]


@case()
def group_norm_bf16(torch: Any) -> Made:
    return torch.nn.GroupNorm(2, 8).bfloat16(), [torch.randn(4, 8, 3).bfloat16()]


@case(tolerance=1e-5)
def rms_norm(torch: Any) -> Made:
    return torch.nn.RMSNorm(8), [torch.randn(4, 3, 8)]


@case()
def batch_norm(torch: Any) -> Made:
    return torch.nn.BatchNorm2d(3), [torch.randn(2, 3, 8, 8)]


@case()
def batch_norm_of_bf16_with_float32_parameters(torch: Any) -> Made:
    return torch.nn.BatchNorm2d(3), [torch.randn(2, 3, 8, 8).bfloat16()]


@case()
def batch_norm_bf16(torch: Any) -> Made:
    return torch.nn.BatchNorm2d(3).bfloat16(), [torch.randn(2, 3, 8, 8).bfloat16()]


@case()
def batch_norm_in_evaluation(torch: Any) -> Made:
    return torch.nn.BatchNorm2d(3).eval(), [torch.randn(2, 3, 8, 8)]


@case()
def convolutions(torch: Any) -> Made:
    nn = torch.nn
    layers = [
        nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, groups=4),
    ]
    return nn.Sequential(*layers), [torch.randn(2, 3, 8, 8)]


@case()
def convolution_channels_last(torch: Any) -> Made:
    layer = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    return layer, [torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)]


@case(tolerance=1e-5)
def transposed_convolution(torch: Any) -> Made:
    return torch.nn.ConvTranspose3d(3, 4, 2), [torch.randn(2, 3, 4, 4, 4)]


@case(tolerance=1e-5)
def lstm(torch: Any) -> Made:
    return torch.nn.LSTM(5, 6, 2, bidirectional=True), [torch.randn(4, 3, 5)]


@case(tolerance=1e-5)
def lstm_without_bias(torch: Any) -> Made:
    return torch.nn.LSTM(5, 6, bias=False), [torch.randn(4, 3, 5)]


@case(tolerance=1e-5)
def gru(torch: Any) -> Made:
    return torch.nn.GRU(5, 6, 2), [torch.randn(4, 3, 5)]


@case(tolerance=1e-5)
def gru_without_bias(torch: Any) -> Made:
    return torch.nn.GRU(5, 6, bias=False), [torch.randn(4, 3, 5)]


@case()
def embedding(torch: Any) -> Made:
    return torch.nn.Embedding(10, 4, padding_idx=2), [torch.tensor([[1, 2, 3], [3, 9, 2]])]


def _embedding_bag(torch: Any, mode: str) -> Made:
    inputs = [torch.randn(10, 4), torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 3, 5])]
    bag = torch.nn.functional.embedding_bag
    return lambda weight, index, offsets: bag(index, weight, offsets, mode=mode), inputs


@case()
def embedding_bag_sum(torch: Any) -> Made:
    return _embedding_bag(torch, "sum")


@case()
def embedding_bag_mean(torch: Any) -> Made:
    return _embedding_bag(torch, "mean")


@case()
def embedding_bag_max(torch: Any) -> Made:
    return _embedding_bag(torch, "max")


@case(tolerance=1e-5)
def multi_head_attention(torch: Any) -> Made:
    return torch.nn.MultiheadAttention(8, 2), [torch.randn(5, 2, 8) for _ in range(3)]


@case(tolerance=1e-5)
def encoder_layer_in_evaluation(torch: Any) -> Made:
    return torch.nn.TransformerEncoderLayer(8, 2, 16).eval(), [torch.randn(5, 2, 8)]


@case()
def softmax_of_bf16_to_float32(torch: Any) -> Made:
    softmax = torch.nn.functional.softmax
    return lambda x: softmax(x, -1, dtype=torch.float32), [torch.randn(4, 8).bfloat16()]


@case()
def log_softmax_of_bf16_to_float32(torch: Any) -> Made:
    log_softmax = torch.nn.functional.log_softmax
    return lambda x: log_softmax(x, -1, dtype=torch.float32), [torch.randn(4, 8).bfloat16()]


@case()
def log_sigmoid(torch: Any) -> Made:
    return torch.nn.functional.logsigmoid, [torch.randn(4, 8)]


@case()
def cross_entropy_with_ignored_target(torch: Any) -> Made:
    return torch.nn.functional.cross_entropy, [torch.randn(3, 8), torch.tensor([1, -100, 3])]


@case(tolerance=1e-5)
def connectionist_loss(torch: Any) -> Made:
    targets, lengths = torch.tensor([[1, 2, 3], [2, 4, 1]]), torch.tensor([6, 6])

    def loss(x: Any) -> Any:
        return torch.nn.functional.ctc_loss(
            x.log_softmax(-1), targets, lengths, torch.tensor([3, 2])
        )

    return loss, [torch.randn(6, 2, 5)]


@case()
def bilinear_interpolation(torch: Any) -> Made:
    interpolate = torch.nn.functional.interpolate
    return lambda x: interpolate(x, scale_factor=2, mode="bilinear"), [torch.randn(1, 2, 4, 4)]


def _attention(torch: Any, backend: str, inputs: list[Any], bias: bool = False) -> Made:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attend(query: Any, key: Any, value: Any, *mask: Any) -> Any:
        chosen = getattr(SDPBackend, backend) if query.is_cuda else SDPBackend.MATH
        with sdpa_kernel(chosen):
            return torch.nn.functional.scaled_dot_product_attention(
                query, key, value, *mask, is_causal=not mask, enable_gqa=not mask
            ).float()

    return attend, [*inputs, torch.randn(2, 4, 13, 13)] if bias else inputs


@case(tolerance=4e-3)  # four times the spacing of float16 above 1
def flash_attention_of_float16_with_shared_keys(torch: Any) -> Made:
    shapes = ((2, 4, 13, 16), (2, 2, 13, 16), (2, 2, 13, 16))
    return _attention(torch, "FLASH_ATTENTION", [torch.randn(shape).half() for shape in shapes])


@case(tolerance=1e-5)
def efficient_attention_with_bias(torch: Any) -> Made:
    inputs = [torch.randn(2, 4, 13, 16) for _ in range(3)]
    return _attention(torch, "EFFICIENT_ATTENTION", inputs, bias=True)
