"""Products wider than their operands: every way to ask for one gives one `dot_general`."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from composites_testing.selection import variants
from composites_testing.tensors import gradient_of

import composites
from composites.errors import InvalidCallError

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
I8, I32 = torch.int8, torch.int32
aten = torch.ops.aten
out_dtype = torch.ops.higher_order.out_dtype


@pytest.fixture(autouse=True)
def products() -> Iterator[None]:
    with composites.enabled("matmul_out_dtype"):
        yield


def random(*shape: int, dtype: torch.dtype = BF16, device: str = "xla") -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    if dtype == torch.bool:
        return (torch.randn(shape, generator=generator) > 0).to(device)
    if dtype == I8:
        return torch.randint(-128, 128, shape, generator=generator).to(I8).to(device)
    return torch.randn(shape, generator=generator).to(dtype).to(device)


def stablehlo(*tensors: torch.Tensor) -> str:
    text: str = xm.get_stablehlo(list(tensors))
    return text


def composites_of(*tensors: torch.Tensor) -> list[str]:
    return re.findall(r'stablehlo\.composite "ptxla\.(\w+)"', stablehlo(*tensors))


def products_of(*tensors: torch.Tensor) -> list[str]:
    """The operand and result types of every product in the graph."""
    signatures = re.findall(
        r"stablehlo\.(?:dot_general|dot|convolution)\b[^\n]* : (\([^\n]*)", stablehlo(*tensors)
    )
    return [re.sub(r"tensor<(?:\d+x)*(\w+)>", r"\1", signature) for signature in signatures]


def assert_close(result: torch.Tensor, reference: torch.Tensor, dtype: torch.dtype) -> None:
    """Check that a result is as close to an f64 reference as sums in `dtype` in some order are."""
    assert result.dtype == dtype
    assert result.shape == reference.shape
    if dtype.is_floating_point:
        scale = reference.abs().amax() if reference.numel() else 0
        difference = (result.cpu().double() - reference).abs()
        assert bool((difference <= 4 * torch.finfo(dtype).eps * scale).all())
    else:
        assert torch.equal(result.cpu().double(), reference)


def wide(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [t.detach().cpu().double() for t in tensors]


WIDER = ((BF16, F32), (F16, F32), (F32, F64), (I8, I32), (BF16, BF16))


@pytest.mark.parametrize(("dtype", "output"), WIDER)
def test_mm_is_one_dot(dtype: torch.dtype, output: torch.dtype) -> None:
    a, b = random(5, 16, dtype=dtype), random(16, 3, dtype=dtype)
    result = torch.mm(a, b, out_dtype=output)
    assert composites_of(result) == ["mm"]
    text = stablehlo(result)
    assert "stablehlo.convert" not in text
    decomposition = text[text.index("func.func private @ptxla.mm.impl") :]
    assert re.findall(r"stablehlo\.\w+ ", decomposition) == ["stablehlo.dot_general "]
    reference = torch.mm(*wide(a, b))
    assert_close(result, reference.to(output).double() if dtype == output else reference, output)


def test_addmm() -> None:
    a, b = random(5, 16), random(16, 3)
    for has_result_type, (beta, alpha) in product((True, False), ((1, 1), (0.5, 2), (0, 1))):
        bias = random(3, dtype=F32 if has_result_type else BF16)
        result = torch.addmm(bias, a, b, out_dtype=F32, beta=beta, alpha=alpha)
        assert composites_of(result) == ["addmm"]
        assert products_of(result) == ["(bf16, bf16) -> f32"]
        assert_close(result, torch.addmm(*wide(bias, a, b), beta=beta, alpha=alpha), F32)


def test_addmm_with_beta_0_does_not_read_self() -> None:
    bias = torch.full((3,), torch.nan, device="xla")
    result = torch.addmm(bias, random(5, 16), random(16, 3), out_dtype=F32, beta=0)
    assert bool(result.isfinite().all())


# XLA:CPU refuses a product from bf16 to f32 that it transposes the result in.


@pytest.mark.parametrize("size", [4, 256])
def test_the_result_may_be_transposed(size: int) -> None:
    a, b = random(size, 2 * size), random(2 * size, size + 1)
    result = torch.mm(a, b, out_dtype=F32).T.contiguous() + 1
    assert_close(result, torch.mm(*wide(a, b)).T + 1, F32)


def test_a_composite_of_several_results_may_hold_one() -> None:
    @composites.composite("acme.product_and_sum")
    def function(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.mm(a, b, out_dtype=F32), a.sum()

    a, b = random(8, 16), random(16, 5)
    product, total = function(a, b)
    assert re.findall(r'"acme\.\w+"', stablehlo(product)) == ['"acme.product_and_sum"']
    assert_close(product.T.contiguous() * 2, torch.mm(*wide(a, b)).T * 2, F32)
    assert_close(total, wide(a)[0].sum().to(BF16).double(), BF16)


# Gradients.


def with_references(
    wide_product: Callable[..., torch.Tensor], operator: Any, arguments: Sequence[Any]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The gradients of a product with a wide result, and those of the operator in f64."""
    leaves = [a for a in arguments if isinstance(a, torch.Tensor)]
    result = wide_product(*arguments)
    direction = random(*result.shape, dtype=F32)
    doubles = [wide(a)[0].requires_grad_() if isinstance(a, torch.Tensor) else a for a in arguments]
    references = [a for a in doubles if isinstance(a, torch.Tensor)]
    expected = torch.autograd.grad(operator(*doubles), references, direction.cpu().double())
    return list(torch.autograd.grad(result, leaves, direction)), list(expected)


def test_gradient_of_one_operand_is_one_product() -> None:
    a, b = random(5, 16).requires_grad_(), random(16, 3)
    torch.mm(a, b, out_dtype=F32).sum().backward()
    assert len(products_of(gradient_of(a))) == 1
    assert gradient_of(a).dtype == BF16


def test_second_gradients() -> None:
    a, b = random(5, 16).requires_grad_(), random(16, 3).requires_grad_()
    result = torch.mm(a, b, out_dtype=F32)
    (first,) = torch.autograd.grad((result * result).sum(), a, create_graph=True)
    (second,) = torch.autograd.grad(first.float().sum(), b)
    x, y = (t.requires_grad_() for t in wide(a, b))
    (first_x,) = torch.autograd.grad(((x @ y) ** 2).sum(), x, create_graph=True)
    (second_y,) = torch.autograd.grad(first_x.sum(), y)
    assert_close(second, second_y, BF16)


# out=

SHAPES = (
    ((8,), (8,)), ((4, 8), (8,)), ((8,), (8, 3)), ((4, 8), (8, 3)), ((2, 4, 8), (8, 3)),
    ((2, 4, 8), (8,)), ((4, 8), (5, 8, 3)), ((8,), (5, 8, 3)), ((2, 1, 4, 8), (5, 8, 3)),
    ((2, 4, 8), (2, 8, 3)), ((0, 8), (8, 3)), ((4, 0), (0, 3)),
)  # fmt: skip


def matmul_into(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    torch.matmul(a, b, out=c)
    return c


class MatmulInto(torch.nn.Module):
    def __init__(self, shape: torch.Size, dtype: torch.dtype) -> None:
        super().__init__()
        self.shape, self.dtype = shape, dtype

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return matmul_into(a, b, torch.empty(self.shape, dtype=self.dtype, device=a.device))


@pytest.mark.parametrize(
    ("dtype", "output"), [(BF16, F32), pytest.param(I8, I32, marks=pytest.mark.exhaustive)]
)
@variants(("left", "right"), SHAPES, fast=2)
def test_matmul_respects_the_dtype_of_out(
    left: tuple[int, ...], right: tuple[int, ...], dtype: torch.dtype, output: torch.dtype
) -> None:
    """Eager and torch.compile have the same bits, from one dot of the narrow operands. An export
    runs on the XLA of jax, which may add up in another order."""
    a, b = random(*left, dtype=dtype), random(*right, dtype=dtype)
    reference = torch.matmul(*wide(a, b))
    c = torch.empty(reference.shape, dtype=output, device="xla")
    eager = matmul_into(a, b, c)
    assert eager is c
    if reference.numel() and left[-1]:
        (product,) = products_of(eager)
        assert product.endswith("f32" if output == F32 else "i32")
    assert "stablehlo.convert" not in stablehlo(eager)
    assert_close(eager, reference, output)

    torch._dynamo.reset()
    into = torch.empty(reference.shape, dtype=output, device="xla")
    compiled = torch.compile(matmul_into, backend="openxla")(a, b, into)
    assert torch.equal(compiled.cpu(), eager.cpu())
    assert torch.equal(into.cpu(), eager.cpu())

    module = MatmulInto(reference.shape, output)
    program = composites.export(module, (a.cpu(), b.cpu()), ops=["matmul_out_dtype"])
    (exported,) = program.run(a.cpu(), b.cpu()).values()
    assert_close(torch.from_numpy(exported.copy()), reference, output)


def test_operators_respect_the_dtype_of_out() -> None:
    for operator, sizes, name in (
        (torch.bmm, ((2, 5, 16), (2, 16, 3)), "bmm"),
        (torch.addmm, ((3,), (5, 16), (16, 3)), "addmm"),
        (torch.baddbmm, ((3,), (2, 5, 16), (2, 16, 3)), "baddbmm"),
        (torch.matmul, ((2, 5, 16), (16, 3)), "mm"),
    ):
        for mode in (torch.no_grad, torch.inference_mode):
            operands = [random(*size) for size in sizes]
            reference = operator(*wide(*operands))
            with mode():
                c = torch.empty(reference.shape, device="xla")
                assert operator(*operands, out=c) is c
                assert composites_of(c) == [name]
            assert_close(c, reference, F32)


def test_out_beside_out_dtype() -> None:
    a, b = random(5, 16), random(16, 3)
    c = torch.empty(5, 3, device="xla")
    assert torch.mm(a, b, out_dtype=F32, out=c) is c
    assert composites_of(c) == ["mm"]
    narrow = torch.empty(5, 3, dtype=BF16, device="xla")
    with pytest.raises(InvalidCallError, match=r"torch\.float32, but got torch\.bfloat16"):
        torch.mm(a, b, out_dtype=F32, out=narrow)


def test_out_is_resized_and_narrow_or_with_gradients_as_in_stock() -> None:
    a, b = random(5, 16), random(16, 3)
    resized, narrow = torch.empty(0, device="xla"), torch.empty(5, 3, dtype=BF16, device="xla")
    torch.matmul(a, b, out=resized)
    torch.matmul(a, b, out=narrow)
    assert resized.shape == (5, 3)
    assert composites_of(narrow) == []
    with pytest.raises(RuntimeError, match=r"out=\.\.\. arguments don't support automatic"):
        torch.matmul(a.requires_grad_(), b, out=torch.empty(5, 3, device="xla"))


# The higher-order operator.

IMAGE, KERNEL = (2, 4, 9, 8), (6, 2, 3, 3)
STRIDED = ((2, 1), (1, 2), (1, 2), 2)
TRANSPOSED = ([2, 3], [1, 1], [2, 1], True, [1, 0], 2)
CAUGHT: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...], str]] = {
    "mm": (aten.mm, ((5, 16), (16, 3)), (), "mm"),
    "bmm": (aten.bmm, ((2, 5, 16), (2, 16, 3)), (), "bmm"),
    "addmm": (aten.addmm, ((3,), (5, 16), (16, 3)), (), "addmm"),
    "baddbmm": (aten.baddbmm, ((3,), (2, 5, 16), (2, 16, 3)), (), "baddbmm"),
    "linear": (aten.linear, ((2, 5, 16), (3, 16)), (), "mm"),
    "linear with bias": (aten.linear, ((2, 5, 16), (3, 16), (3,)), (), "addmm"),
    "conv2d": (aten.conv2d, (IMAGE, KERNEL, (6,)), STRIDED, "convolution"),
    "conv2d of two": (aten.conv2d, (IMAGE, (6, 4, 3, 3)), (), "convolution"),
    "transposed": (aten.convolution, (IMAGE, (4, 3, 3, 3), (6,)), TRANSPOSED, "convolution"),
}
"""An operator, the sizes of its tensors, further arguments, and the composite, by name."""


@variants("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", CAUGHT)
def test_out_dtype_operator(name: str, mode: Any) -> None:
    operator, sizes, more, composite = CAUGHT[name]
    with mode():  # views of tensors from outside raise in torch_xla's inference mode
        tensors = [random(*size) for size in sizes]
        result = out_dtype(operator.default, F32, *tensors, *more)
        assert composites_of(result) == [composite]
        assert products_of(result) == ["(bf16, bf16) -> f32"]
    assert_close(result, operator(*wide(*tensors), *more), F32)


ACCUMULATING = (aten.addmm, ((5, 3), (5, 16), (16, 3)), (), "matmul_accumulate")


@variants("dtype", [BF16, F16])
@pytest.mark.parametrize("name", [*CAUGHT, "accumulating"])
def test_gradients_of_out_dtype_operators(name: str, dtype: torch.dtype) -> None:
    """The gradients are one composite, with the products of narrow operands."""
    operator, sizes, more, composite = CAUGHT.get(name, ACCUMULATING)
    inputs = [random(*size, dtype=dtype) for size in sizes]
    if name == "accumulating":
        inputs[0] = inputs[0].float()
    leaves = [tensor.requires_grad_() for tensor in inputs]
    call = partial(out_dtype, operator.default, F32)
    gradients, expected = with_references(call, operator, [*leaves, *more])
    assert composites_of(*gradients) == [f"{composite}_backward"]
    narrow = "f16" if dtype == F16 else "bf16"
    types = {types.partition(" -> ")[0] for types in products_of(*gradients)}
    assert types == {f"({narrow}, {narrow})"}
    for gradient, tensor, reference in zip(gradients, leaves, expected, strict=True):
        assert_close(gradient, reference, tensor.dtype)


def test_out_dtype_operator_of_integers_is_exact() -> None:
    a, b = random(7, 300, dtype=I8), random(300, 5, dtype=I8)
    result = out_dtype(aten.mm.default, I32, a, b)
    assert products_of(result) == ["(i8, i8) -> i32"]
    assert_close(result, torch.mm(*wide(a, b)), I32)
    image, kernel = random(1, 3, 6, 6, dtype=I8), random(4, 3, 3, 3, dtype=I8)
    convolved = out_dtype(aten.conv2d.default, I32, image, kernel)
    assert products_of(convolved) == ["(i8, i8) -> i32"]
    assert_close(convolved, aten.conv2d.default(*wide(image, kernel)), I32)


@pytest.mark.parametrize("device", ["cpu", "xla"])
def test_out_dtype_operator_elsewhere_and_afterwards_is_what_it_was(device: str) -> None:
    if device == "xla":
        composites.disable()
    a, b = random(5, 16, device=device), random(16, 3, device=device)
    result = out_dtype(aten.mm.default, F32, a, b)
    assert device == "cpu" or composites_of(result) == []
    assert device == "xla" or torch.equal(result, torch.mm(a.float(), b.float()))
    with pytest.raises(ValueError, match="out_dtype only allows"):
        out_dtype(aten.bmm.default, F32, a[None], b[None])


# torch.compile


def loss_of_products(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    first = torch.mm(a, b, out_dtype=F32)
    second = torch.addmm(c, a, b, out_dtype=F32)
    return (first * second + out_dtype(aten.mm.default, F32, a, b)).sum()


@variants("backend", ["openxla", "aot_eager"])
def test_compiled_training(backend: str) -> None:
    def step(function: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
        inputs = [random(*s).requires_grad_() for s in ((5, 16), (16, 3), (3,))]
        loss = function(*inputs)
        return [loss.detach().cpu(), *(g.cpu() for g in torch.autograd.grad(loss, inputs))]

    eager = step(loss_of_products)
    torch._dynamo.reset()
    compiled = step(torch.compile(loss_of_products, backend=backend))
    torch.testing.assert_close(compiled, eager, rtol=0, atol=0)


# Accumulating gradients.


def factors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return random(6, 4, dtype=F32), random(10, 6).T, random(10, 4)


ACCUMULATIONS: dict[str, Callable[..., torch.Tensor]] = {
    "new": lambda main, g, x: torch.addmm(main, g, x, out_dtype=F32),
    "in place": lambda main, g, x: main.addmm_(g, x),
    "out": lambda main, g, x: torch.addmm(main, g, x, out_dtype=F32, out=main),
    "out of another": lambda main, g, x: torch.addmm(main, g, x, out=torch.empty_like(main)),
}


@pytest.mark.parametrize("entries", [("matmul_out_dtype",), ("matmul_accumulate",)])
@variants("form", ACCUMULATIONS, fast=3)
def test_accumulation_is_one_composite(form: str, entries: tuple[str, ...]) -> None:
    composites.disable()
    main, g, x = factors()
    reference = torch.addmm(*wide(main, g, x))
    with composites.enabled(*entries):
        result = ACCUMULATIONS[form](main, g, x)
    assert (result is main) == (form in ("in place", "out"))
    assert composites_of(result) == ["matmul_accumulate"]
    assert products_of(result) == ["(bf16, bf16) -> f32"]
    assert "stablehlo.convert" not in stablehlo(result)
    assert_close(result, reference, F32)


def test_what_does_not_only_accumulate_is_addmm() -> None:
    main, g, x = factors()
    assert composites_of(torch.addmm(main, g, x, out_dtype=F32, alpha=2)) == ["addmm"]
    assert composites_of(torch.addmm(main[0], g, x, out_dtype=F32)) == ["addmm"]


# Bad requests.


A, B = (5, 16), (16, 3)
REFUSALS: list[tuple[Callable[..., Any], tuple[Any, ...], tuple[torch.dtype, ...], str]] = [
    (torch.mm, (A, B), (BF16, BF16, I32), "torch.int32 is not of the same kind as the operands'"),
    (torch.mm, (A, B), (I8, I8, F32), "torch.float32 is not of the same kind as the operands'"),
    (torch.mm, (A, B), (F32, F32, BF16), "torch.bfloat16 cannot hold every value of the operands'"),
    (torch.mm, (A, B), (BF16, BF16, F16), "torch.float16 cannot hold every value of the operands'"),
    (torch.mm, (A, B), (BF16, F32, F32), "expected operands of one dtype, but got torch.bfloat16"),
    (torch.mm, (A, B), (torch.bool, torch.bool, I32), "not implemented for torch.bool"),
    (torch.mm, ((1, *A), B), (BF16, BF16, F32), "mm: self must be a 2-D tensor, got 3-D"),
    (torch.bmm, ((1, *A), B), (BF16, BF16, F32), "bmm: mat2 must be a 3-D tensor, got 2-D"),
    (torch.mm, (A, (8, 3)), (BF16, BF16, F32), "shapes (5, 16) and (8, 3) cannot be multiplied"),
    (torch.addmm, ((3,), A, B), (F16, BF16, BF16, F32), "or of out_dtype torch.float32, but got"),
    (torch.addmm, ((7,), A, B), (BF16, BF16, BF16, F32), "must match the existing size (7)"),
]
"""Operators, the sizes of operands, their types and that of the result, and what is said."""


def test_bad_requests_are_runtime_errors() -> None:
    for operator, sizes, (*types, output), message in REFUSALS:
        made = [random(*size, dtype=dtype) for size, dtype in zip(sizes, types, strict=True)]
        for _ in range(2):  # no half-made entry in a cache
            with pytest.raises(RuntimeError, match=re.escape(message)):
                operator(*made, out_dtype=output)


def test_single_names_turn_on_single_products() -> None:
    composites.disable()
    a, b = random(5, 16), random(16, 3)
    with composites.enabled("mm"):
        assert composites_of(torch.mm(a, b, out_dtype=F32)) == ["mm"]
        with pytest.raises(NotImplementedError):
            torch.bmm(a[None], b[None], out_dtype=F32)
        c = torch.empty(1, 5, 3, device="xla")
        torch.matmul(a[None], b[None], out=c)
        assert composites_of(c) == []


def test_nothing_is_executed_to_find_out() -> None:
    before = torch_xla.debug.metrics.metric_data("ExecuteTime")
    torch.mm(random(5, 16), random(16, 3), out_dtype=F32)
    assert torch_xla.debug.metrics.metric_data("ExecuteTime") == before
