"""Calls that the OpInfo database does not have: the same bits, and the same exceptions, as stock.

A call is a function without arguments that builds its tensors on the XLA device and returns what
is compared, by name; each test has a table of them.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from composites_testing import tensors
from composites_testing.subjects import Subjects

aten = torch.ops.aten

Call = Callable[[], Mapping[str, Any]]
Function = Callable[..., torch.Tensor]
SameAsStock = Callable[..., Any]

FUNCTIONS: dict[str, Function] = {
    "gelu": F.gelu,
    "silu": F.silu,
    "hardswish": F.hardswish,
    "mish": F.mish,
    "elu": F.elu,
    "softmax": partial(F.softmax, dim=-1),
    "log_softmax": partial(F.log_softmax, dim=-1),
}


values = partial(tensors.values, scale=4)
"""Numbers on both sides of every kink."""


def with_gradient(function: Function, tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """The result for a leaf with the values of `tensor`, and its gradient for some direction."""
    leaf = tensor.detach().requires_grad_()
    result = function(leaf)
    direction = values(*result.shape, dtype=result.dtype, seed=1)
    (gradient,) = torch.autograd.grad(result, leaf, direction)
    return {"result": result, "gradient": gradient}


def gradient_call(function: Function, make: Callable[[], torch.Tensor]) -> Call:
    return lambda: with_gradient(function, make())


def call(function: Callable[..., Any], *makers: Any, **keywords: Any) -> Call:
    """A call of `function`; arguments that can be called make the tensors."""

    def run() -> dict[str, Any]:
        made = [make() if callable(make) else make for make in makers]
        return {"result": function(*made, **keywords)}

    return run


X = partial(values, 4, 6)
G = partial(values, 4, 6, seed=1)


# Shapes and layouts

LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "0-d": lambda: values(1).reshape(()),
    "one element": lambda: values(1),
    "no elements": lambda: values(0),
    "no rows": lambda: values(0, 4),
    "no columns": lambda: values(4, 0),
    "five dimensions": lambda: values(2, 1, 3, 1, 4),
    "transposed": lambda: values(3, 4).t(),
    "permuted": lambda: values(2, 3, 4).permute(2, 0, 1),
    "every second": lambda: values(8, 8)[::2, 1::3],
    "narrowed": lambda: values(6, 4).narrow(0, 2, 3),
    "expanded": lambda: values(4, 1).expand(4, 5),
    "flipped": lambda: values(3, 4).flip(1),
    "diagonal": lambda: values(4, 4).diagonal(),
    "chunk": lambda: values(4, 6).chunk(2, dim=1)[1],
    "reshaped after transpose": lambda: values(4, 6).t().reshape(3, 8),
    "strided": lambda: values(16).as_strided((3, 4), (4, 1), 2),
    "channels last": lambda: values(2, 3, 4, 4).to(memory_format=torch.channels_last),
}


def gradients_in_layouts(name: str) -> Subjects:
    return Subjects(
        {layout: gradient_call(FUNCTIONS[name], make) for layout, make in LAYOUTS.items()},
        emits={name, f"{name}_backward"},
        # Stock torch_xla counts no dimension in a 0-d tensor, where PyTorch allows 0 and -1.
        raises=["0-d"] if name.endswith("softmax") else [],
        label=f"{name}, ",
    )


def test_layouts(all_same_as_stock: SameAsStock) -> None:
    all_same_as_stock(*map(gradients_in_layouts, FUNCTIONS))


# What the operators take beside tensors


def test_numbers_of_other_types(all_same_as_stock: SameAsStock) -> None:
    all_same_as_stock(
        Subjects({"a boolean": call(aten.elu, X, True)}, emits={"elu"}),
        Subjects({"a complex number": call(aten.elu, X, 1 + 2j)}, emits=()),
    )


def test_integers_without_a_stock_lowering_fail_as_in_stock(same_as_stock: SameAsStock) -> None:
    def executed(function: Function) -> dict[str, Any]:
        try:
            return {"values": function(torch.arange(4, device="xla")).cpu()}
        except RuntimeError as error:
            # The rest is a C++ stack.
            raise RuntimeError(str(error).split("\n")[0]) from None

    calls = {name: partial(executed, FUNCTIONS[name]) for name in FUNCTIONS if name != "hardswish"}
    comparison = same_as_stock(calls, emits=(), raises=calls)
    for raised in comparison.stock.raised.values():
        assert "Error while lowering" in raised.message


# Ways to call


IN_PLACE: dict[str, tuple[str, Function]] = {
    "F.elu with alpha": ("elu", partial(F.elu, alpha=1.7, inplace=True)),
    "F.silu": ("silu", partial(F.silu, inplace=True)),
    "aten.gelu_": ("gelu", aten.gelu_),
}


def calls_in_place(form: str) -> Subjects:
    name, function = IN_PLACE[form]

    def changed(view: Function) -> dict[str, torch.Tensor]:
        base = X()
        assert function(view(base)).shape == view(base).shape
        return {"base": base}

    calls: dict[str, Call] = {
        "whole": lambda: changed(lambda t: t),
        "slice": lambda: changed(lambda t: t[1:3, ::2]),
        "transposed": lambda: changed(lambda t: t.t()),
        "flattened": lambda: changed(lambda t: t.view(-1)),
        "a leaf that requires a gradient": lambda: {"base": function(X().requires_grad_())},
    }
    refused = ["a leaf that requires a gradient"]
    return Subjects(calls, emits={name}, raises=refused, label=f"{form}, ")


def test_in_place(all_same_as_stock: SameAsStock) -> None:
    """See test_sample_fidelity.py for other operators, and for gradients."""
    all_same_as_stock(*map(calls_in_place, IN_PLACE))


OUT: dict[str, tuple[str, Function]] = {
    "aten.gelu.out": ("gelu", lambda out: aten.gelu.out(X(), out=out)),
    "aten.elu.out": ("elu", lambda out: aten.elu.out(X(), 1.7, out=out)),
    "torch.softmax": ("softmax", lambda out: torch.softmax(X(), -1, out=out)),
    "aten._softmax.out": ("softmax", lambda out: aten._softmax.out(X(), -1, False, out=out)),
}


def calls_with_out(form: str) -> Subjects:
    name, function = OUT[form]

    def into(*shape: int, dtype: torch.dtype = torch.float32) -> Call:
        def run() -> dict[str, torch.Tensor]:
            out = torch.zeros(shape, dtype=dtype, device="xla")
            assert function(out) is out
            return {"out": out}

        return run

    calls = {
        "fits": into(4, 6),
        "is resized": into(2),
        "is wider": into(4, 6, dtype=torch.float64),
        "is narrower": into(4, 6, dtype=torch.bfloat16),
    }
    return Subjects(calls, emits={name}, label=f"{form}, ")


def test_out(all_same_as_stock: SameAsStock) -> None:
    all_same_as_stock(*map(calls_with_out, OUT))


# Exceptions


def third_derivative() -> torch.Tensor:
    """See test_modes.py and test_autograd_composites.py for derivatives that exist."""
    leaf = X().requires_grad_()
    derivative = F.hardswish(leaf)
    for order in (1, 2, 3):
        direction = values(4, 6, seed=order).requires_grad_()
        (derivative,) = torch.autograd.grad(derivative, leaf, direction, create_graph=True)
    return derivative


WRONG: dict[str, Callable[[], Any]] = {
    "gelu, unknown approximation": call(F.gelu, X, approximate="nope"),
    "gelu, approximation None": call(F.gelu, X, approximate=None),
    "gelu, positional approximation": call(aten.gelu, X, "none"),
    "gelu, a list": call(F.gelu, [1.0]),
    "gelu_backward, unknown approximation": call(aten.gelu_backward, G, X, approximate="nope"),
    "softmax, dim too large": call(F.softmax, X, dim=2),
    "softmax, dim too small": call(F.softmax, X, dim=-3),
    "softmax, dim not whole": call(F.softmax, X, dim=1.5),
    "softmax, unknown name": call(F.softmax, X, dim="nope"),
    "log_softmax, dim too large": call(F.log_softmax, X, dim=7),
    "_softmax, dim too large": call(aten._softmax, X, 2, False),
    "softmax, a dimension's name": lambda: {"result": X().rename("r", "c").softmax("c")},
    "elu in place, negative slope": gradient_call(
        lambda t: F.elu(t.clone(), -1.0, inplace=True), X
    ),
    "hardswish, third derivative": third_derivative,
    "elu, alpha a string": call(F.elu, X, "a"),
    "elu, alpha beyond 64 bits": call(F.elu, X, 2**70),
    "silu_backward, shapes": call(aten.silu_backward, G, partial(values, 3, 3)),
    "mish_backward, shapes": call(aten.mish_backward, G, partial(values, 3, 3)),
    "backward, gradient on the CPU": lambda: F.gelu(X().requires_grad_()).backward(
        torch.ones(4, 6)
    ),
    "backward, twice": lambda: [
        result.sum().backward() for result in [F.silu(X().requires_grad_())] * 2
    ],
    "saved tensor changed": lambda: with_gradient(
        lambda t: [c := t.clone(), F.gelu(c), c.add_(1)][1], X()
    ),
}


def twice(wrong: Callable[[], Any]) -> Any:
    try:
        wrong()
    except Exception:
        return wrong()
    return {}


def test_exceptions_are_those_of_stock(same_as_stock: SameAsStock) -> None:
    """The second call raises stock's exception, too."""
    again = {f"{name}, again": partial(twice, wrong) for name, wrong in WRONG.items()}
    raised = same_as_stock(WRONG | again, emits=(), raises=WRONG | again).ours.raised
    assert "negative slope" in raised["elu in place, negative slope"].message
    assert "not have been used in the graph" in raised["hardswish, third derivative"].message


def test_zeros_of_both_signs_are_two_calls(same_as_stock: SameAsStock) -> None:
    def leaky() -> Mapping[str, Any]:
        x = -values(8).abs()
        return {str(slope): F.leaky_relu(x, slope) for slope in (0.0, -0.0)}

    same_as_stock({"leaky_relu": leaky}, emits={"leaky_relu"})
