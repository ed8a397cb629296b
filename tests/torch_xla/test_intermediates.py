"""Values that a decomposition names: the forward returns them, and the backward takes them."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_xla.core.xla_model as xm
from composites_testing.modules import CallingWithWeight
from composites_testing.tensors import values
from composites_testing.written import decomposition_of
from torch import Tensor
from torch.nn import functional

import composites
from composites import intermediate
from composites.errors import LoweringError, RegistryError
from composites.operators.experts import experts


def mlp(x: Tensor, weight: Tensor, down: Tensor) -> Tensor:
    return functional.silu(intermediate(x @ weight, "gate")) @ down


def gradients(function: Callable[..., Any], *operands: Tensor, **keywords: Any) -> list[Tensor]:
    """The result and the gradients, of copies of the operands on the XLA device."""
    inputs = [t.detach().to("xla") for t in operands]
    leaves = [t.requires_grad_() for t in inputs if t.is_floating_point()]
    result = function(*inputs, **keywords)
    direction = values(*result.shape, seed=9, dtype=result.dtype)
    return [result, *torch.autograd.grad(result, leaves, direction)]


OPERANDS = (values(4, 3), values(3, 5, seed=1), values(5, 2, seed=2))


def assert_same(mine: list[Tensor], right: list[Tensor]) -> None:
    actual, expected = ([t.cpu() for t in tensors] for tensors in (mine, right))
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_the_backward_takes_the_value() -> None:
    named = composites.composite("t.named", intermediates=["gate"])(mlp)
    plain = composites.composite("t.plain")(mlp)
    text = xm.get_stablehlo(gradients(named, *OPERANDS))
    forward, backward = re.findall(r'composite "t\.named(?:_backward)?".*', text)
    assert forward.endswith("-> tuple<tensor<4x2xf32>, tensor<4x5xf32>>")
    # Of the gradient, the three operands and the value, as the last operand.
    types = "tensor<4x2xf32>, tensor<4x3xf32>, tensor<3x5xf32>, tensor<5x2xf32>, tensor<4x5xf32>"
    assert f"({types}) ->" in backward
    assert decomposition_of("t.named_backward", text).count("dot") == 4
    plain_text = xm.get_stablehlo(gradients(plain, *OPERANDS))
    assert decomposition_of("t.plain_backward", plain_text).count("dot") == 5
    assert_same(gradients(named, *OPERANDS), gradients(mlp, *OPERANDS))


def test_experts_and_their_weights_of_other_types() -> None:
    decorate = composites.composite(
        "t.experts", attributes=["activation"], intermediates=["gate", "up", "output"]
    )
    bf16, f16, f32 = torch.bfloat16, torch.float16, torch.float32
    for dtype, weight_type in ((bf16, f32), (f32, bf16), (f16, bf16)):
        operands = (
            values(5, 16, dtype=dtype),
            torch.tensor([[0, 1], [3, 1], [2, 0], [1, 2], [3, 3]]),
            values(5, 2, seed=1, dtype=weight_type),
            values(4, 12, 16, seed=2, dtype=dtype),
            values(4, 16, 6, seed=3, dtype=dtype),
        )
        mine = gradients(decorate(experts), *operands, activation="silu")
        assert_same(mine, gradients(experts, *operands, activation="silu"))


def test_names_of_a_nested_composite_are_its_own() -> None:
    inner = composites.composite("t.inner", intermediates=["gate"])(mlp)

    def outer(x: Tensor, weight: Tensor, down: Tensor) -> Tensor:
        gate = intermediate(torch.tanh(x), "gate")
        return inner(gate, weight, down) + inner(gate * 2, weight, down)

    nesting = composites.composite("t.outer", intermediates=["gate"])(outer)
    assert_same(gradients(nesting, *OPERANDS), gradients(outer, *OPERANDS))


def test_saves_leaves_out_what_only_the_value_needs() -> None:
    def shifted(x: Tensor, bias: Tensor) -> Tensor:
        return torch.tanh(intermediate(x + bias, "sum"))

    decorate = composites.composite("t.shifted", saves=[], intermediates=["sum"])
    operands = (values(3, 4), values(4, seed=1))
    assert_same(gradients(decorate(shifted), *operands), gradients(shifted, *operands))


def test_a_backward_that_reads_what_is_not_saved_is_an_error() -> None:
    gated = composites.composite("t.gated", saves=["gate"])(lambda gate, up: gate.sigmoid() * up)
    gate, up = (values(3, 4, seed=n).to("xla").requires_grad_() for n in range(2))
    with pytest.raises(
        LoweringError,
        match=r"t\.gated: the backward reads up, which `saves` leaves out; add it to `saves`",
    ):
        torch.autograd.grad(gated(gate, up).sum(), [gate])
    gate = gate.detach()  # the gradient of `up` alone does not read `up`
    (gradient,) = torch.autograd.grad(gated(gate, up).sum(), [up])
    torch.testing.assert_close(gradient.cpu(), gate.sigmoid().cpu())
    # In an export, where the backward has a reference to a composite that reads `up`.
    nested = composites.composite("t.nested", saves=["x"])(lambda x, up: functional.gelu(x) * up)
    module = CallingWithWeight(lambda x: nested(x, x.detach().cos()))
    with pytest.raises(LoweringError, match=r"t\.nested: the backward reads up, which `saves`"):
        composites.export(module, (), train=True)


def test_a_gradient_of_the_gradient() -> None:
    def second(function: Callable[..., Tensor]) -> Tensor:
        x, weight, down = (t.to("xla").requires_grad_() for t in OPERANDS)
        (first,) = torch.autograd.grad(function(x, weight, down).sum(), [x], create_graph=True)
        return torch.autograd.grad(first.square().sum(), [weight])[0].cpu()

    named = composites.composite("t.named", intermediates=["gate"])(mlp)
    torch.testing.assert_close(second(named), second(mlp))


def test_torch_compile() -> None:
    named = composites.composite("t.named", intermediates=["gate"])(mlp)
    torch._dynamo.reset()
    compiled = torch.compile(lambda *args: named(*args), backend="aot_eager", fullgraph=True)
    mine, right = gradients(compiled, *OPERANDS), gradients(mlp, *OPERANDS)
    assert '"t.named_backward"' in xm.get_stablehlo(mine)
    torch.testing.assert_close([t.cpu() for t in mine], [t.cpu() for t in right])


def test_without_gradients_nothing_is_added() -> None:
    named = composites.composite("t.named", intermediates=["gate"])(mlp)
    with torch.no_grad():
        text = xm.get_stablehlo([named(*(t.to("xla") for t in OPERANDS))])
    assert re.search(r'composite "t\.named".*-> tensor<4x2xf32>', text)


def writing(x: Tensor, weight: Tensor) -> Tensor:
    product = x @ weight
    shifted = intermediate(product, "gate") + 1
    product.mul_(2)
    return torch.sin(shifted) * product


def twice(x: Tensor, weight: Tensor) -> Tensor:
    return intermediate(x @ weight, "gate") * intermediate(x.sum(), "gate")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (mlp, r"intermediates: 'gates' of \S*mlp: it names no such value \(it names gate\); call"
         r" composites\.intermediate\(value, 'gates'\) in it"),
        (torch.matmul, r"it names no such value \(it names none\)"),
        (twice, r"'gate' of \S*twice: it gives this name to 2 values; give each a name of its own"),
        (writing, r"'gate' of \S*writing: it writes to this value later; name a copy"),
    ],
    ids=["another name", "no name", "two of a name", "written to"],
)  # fmt: skip
def test_what_a_decomposition_does_not_name(function: Any, message: str) -> None:
    name = "gate" if function in (twice, writing) else "gates"
    if function is torch.matmul:

        def function(x: Tensor, weight: Tensor) -> Tensor:
            return x @ weight

    named = composites.composite("t.named", intermediates=[name])(function)
    count = 3 if function is mlp else 2
    with pytest.raises(LoweringError, match=message):
        gradients(named, *OPERANDS[:count])


@pytest.mark.parametrize(
    ("intermediates", "message"),
    [
        (["x"], "'x' has another meaning in this entry; choose another name"),
        (["result.1"], "'result.1' is not the name of a value, such as gates"),
        (["gate", "gate"], "'gate' is listed twice"),
        ("gate", r"\"gate\" is one string; write a list of names"),
    ],
)
def test_wrong_names(intermediates: Any, message: str) -> None:
    decorate = composites.composite("t.named", intermediates=intermediates)
    with pytest.raises(RegistryError, match=f"intermediates: {message}"):
        decorate(mlp)
