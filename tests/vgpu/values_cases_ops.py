"""Cases: single operators, views, out arguments, lists, linear algebra and transforms."""

from __future__ import annotations

from typing import Any

from tests.vgpu.values_cases import case

Made = tuple[Any, list[Any]]


@case()
def nonzero(torch: Any) -> Made:
    return lambda x: (x > 0).nonzero(), [torch.randn(4, 8)]


@case()
def index_by_mask(torch: Any) -> Made:
    return lambda x: x[x > 0], [torch.randn(4, 8)]


@case()
def masked_select(torch: Any) -> Made:
    return lambda x: x.masked_select(x > 0), [torch.randn(4, 8)]


@case()
def unique(torch: Any) -> Made:
    return (
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        [torch.tensor([3, 1, 3, 0, 1, 3, 4])],
    )


@case()
def unique_consecutive(torch: Any) -> Made:
    return torch.unique_consecutive, [torch.tensor([3, 3, 1, 0, 0, 3])]


@case()
def ldexp_with_whole_exponents(torch: Any) -> Made:
    def scale(x: Any, exponent: Any) -> Any:
        into = torch.ldexp(x.detach(), exponent, out=torch.empty_like(x.detach()))
        return torch.ldexp(x, exponent), into, x.clone().ldexp_(exponent)

    return scale, [torch.randn(5), torch.tensor([3, -1, 0, 2, 7])]


@case()
def mode_of_more_than_one_block(torch: Any) -> Made:
    def values(x: Any) -> Any:
        into = torch.empty((), dtype=x.dtype, device=x.device)
        place = torch.empty((), dtype=torch.long, device=x.device)
        torch.mode(x, out=(into, place))
        return torch.mode(x).values, into

    return values, [torch.randint(-9, 9, (3000,))]


@case()
def bincount(torch: Any) -> Made:
    return torch.bincount, [torch.tensor([3, 1, 3, 0, 1, 3, 4])]


@case()
def repeat_interleave(torch: Any) -> Made:
    return lambda x, n: x.repeat_interleave(n, 0), [torch.randn(3, 2), torch.tensor([1, 0, 3])]


@case()
def comparison_that_returns_a_bool(torch: Any) -> Made:
    def compare(x: Any) -> Any:
        return torch.tensor([torch.equal(x, x + 0), torch.equal(x, x + 1)])

    return compare, [torch.randn(3)]


@case()
def conversion_to_sparse(torch: Any) -> Made:
    return lambda x: x.detach().relu().to_sparse().coalesce().values(), [torch.randn(4, 4)]


@case()
def views_written_in_place(torch: Any) -> Made:
    def write(x: Any) -> Any:
        y = x.clone()
        y[y > 0] = 7.0
        y[[0, 1]] += 1
        y[:, ::2].mul_(2)
        y.t_()
        return y.add_(y)

    return write, [torch.randn(4, 8)]


@case(tolerance=1e-5)
def out_arguments_that_are_resized(torch: Any) -> Made:
    def write(x: Any) -> Any:
        x = x.detach()

        def empty(dtype: Any = torch.float32) -> Any:
            return torch.empty(0, dtype=dtype, device=x.device)

        total = torch.add(x, 1, out=empty())
        order = torch.sort(x, out=(empty(), empty(torch.long)))
        found = torch.nonzero(x, out=empty(torch.long))
        return total, *order, found, torch.linalg.inv(x, out=empty())

    return write, [torch.randn(4, 4)]


@case()
def in_place_op_that_changes_its_size(torch: Any) -> Made:
    return (
        lambda x, y: torch.ones(1, device=x.device).addbmm_(x, y),
        [torch.randn(2, 3, 4), torch.randn(2, 4, 5)],
    )


@case()
def in_place_op_whose_kernel_copies_into_its_own_input(torch: Any) -> Made:
    return lambda x: (x.detach() + 3).mvlgamma_(2), [torch.rand(6)]


@case()
def cpu_tensors_among_the_arguments(torch: Any) -> Made:
    return lambda x: x * torch.tensor(2.5) + x[torch.tensor([0, 2])].sum(), [torch.randn(4)]


@case()
def foreach_lists(torch: Any) -> Made:
    def compute(x: Any, y: Any) -> Any:
        lists = [x.detach().clone(), y.detach().clone()]
        torch._foreach_add_(lists, 2.0)
        torch._foreach_lerp_(lists, [one * 2 for one in lists], 0.25)
        return *torch._foreach_norm(lists), *torch._foreach_mul(lists, [2.0, 3.0]), *lists

    return compute, [torch.randn(4), torch.randn(5)]


@case()
def foreach_copy_between_devices(torch: Any) -> Made:
    def copy(x: Any) -> Any:
        targets = [torch.zeros(4, device=x.device), torch.zeros(4)]
        torch._foreach_copy_(targets, [x.detach().cpu(), x.detach()])
        return targets

    return copy, [torch.randn(4)]


@case()
def loss_scaling(torch: Any) -> Made:
    def unscale(x: Any) -> Any:
        gradients = x.detach().clone()
        found = torch.zeros(1, device=x.device)
        inverse_scale = torch.full((1,), 0.5, device=x.device)
        torch._amp_foreach_non_finite_check_and_unscale_([gradients], found, inverse_scale)
        scale, tracker = torch.ones(1, device=x.device), torch.zeros(1, device=x.device).int()
        torch._amp_update_scale_(scale, tracker, found, 2.0, 0.5, 1)
        return gradients, found, scale, tracker

    return unscale, [torch.tensor([1.0, float("inf"), 3.0])]


@case()
def cat_and_split(torch: Any) -> Made:
    return (
        lambda x, y: torch.cat([x, y.bfloat16().float()]).split([3, 6]),
        [torch.randn(4, 2), torch.randn(5, 2)],
    )


@case()
def scatter_add(torch: Any) -> Made:
    def add(x: Any) -> Any:
        index = torch.tensor([0, 0, 1, 2], device=x.device)
        return x.new_zeros(3).scatter_add(0, index, x)

    return add, [torch.randn(4)]


@case()
def conjugate_and_negative_bits(torch: Any) -> Made:
    return lambda x: torch.view_as_complex(x).conj().imag + 1, [torch.randn(4, 4, 2)]


@case()
def composite_that_launches_by_itself(torch: Any) -> Made:
    def conjugate(x: Any) -> Any:
        return torch.view_as_real(torch.view_as_complex(x.detach().clone()).conj_physical_())

    return conjugate, [torch.randn(4, 2)]


@case(tolerance=1e-5)
def solve(torch: Any) -> Made:
    return torch.linalg.solve, [torch.randn(4, 4), torch.randn(4, 2)]


@case(tolerance=1e-5)
def singular_values(torch: Any) -> Made:
    return lambda x: torch.linalg.svd(x)[1], [torch.randn(4, 6)]


@case(tolerance=1e-5)
def cholesky(torch: Any) -> Made:
    def factor(x: Any) -> Any:
        return torch.linalg.cholesky(x @ x.mT + torch.eye(4, device=x.device))

    return factor, [torch.randn(4, 4)]


@case(tolerance=1e-4)
def least_squares(torch: Any) -> Made:
    return (
        lambda x, y: torch.linalg.lstsq(x, y).solution,
        [torch.randn(6, 4), torch.randn(6, 2)],
    )


@case()
def real_fft(torch: Any) -> Made:
    return lambda x: torch.view_as_real(torch.fft.rfft(x)), [torch.randn(4, 8)]


@case(tolerance=1e-6)
def fft_there_and_back(torch: Any) -> Made:
    return lambda x: torch.fft.ifft2(torch.fft.fft2(x)).real, [torch.randn(4, 8)]


@case()
def product_with_float32_result(torch: Any) -> Made:
    def multiply(x: Any, y: Any) -> Any:
        x, y = x.detach(), y.detach()
        return torch.mm(x, y, out_dtype=torch.float32) if x.is_cuda else x.float() @ y.float()

    return multiply, [torch.randn(3, 4).bfloat16(), torch.randn(4, 2).bfloat16()]


@case()
def outer_product_of_batches(torch: Any) -> Made:
    return torch.bmm, [torch.randn(2, 3, 1), torch.randn(2, 1, 4)]


@case()
def vmap(torch: Any) -> Made:
    return torch.vmap(torch.mv), [torch.randn(3, 4, 4), torch.randn(3, 4)]


@case()
def jacobian(torch: Any) -> Made:
    return torch.func.jacrev(lambda x: x.exp() * 2), [torch.randn(4)]


@case()
def second_derivative(torch: Any) -> Made:
    def differentiate(x: Any) -> Any:
        x = x.detach().requires_grad_()
        (first,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)

    return differentiate, [torch.randn(4)]


@case()
def checkpoint(torch: Any) -> Made:
    from torch.utils.checkpoint import checkpoint

    return lambda x: checkpoint(lambda y: y.exp(), x, use_reentrant=False), [torch.randn(4)]


@case()
def wrapper_subclass(torch: Any) -> Made:
    class Wrapped(torch.Tensor):
        @staticmethod
        def __new__(cls, inner: Any) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, device=inner.device)

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        @classmethod
        def __torch_dispatch__(
            cls, function: Any, types: Any, args: Any, kwargs: Any = None
        ) -> Any:
            inner = [arg.inner if isinstance(arg, cls) else arg for arg in args]
            return function(*inner, **(kwargs or {}))

    return lambda x: torch.mul(Wrapped(x.detach()), 3.0), [torch.randn(4)]
