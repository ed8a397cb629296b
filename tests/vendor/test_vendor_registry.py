"""A vendor's registry in running graphs: forms, conditions, decompositions, and what goes wrong."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from composites_testing.tensors import gradient_of, values

import composites

pytestmark = pytest.mark.usefixtures("acme")

Use = Callable[[str], str]
GELU = "  gelu: {{op: aten::gelu, decomposition: 'acme.torch_ops:{}'}}\n"


data = partial(values, scale=3)
"""Numbers on both sides of every kink."""


def composite_calls(*tensors: torch.Tensor) -> list[str]:
    """Return the composite calls in the graph of the tensors, without decompositions' numbers."""
    lines = xm.get_stablehlo(list(tensors)).splitlines()
    calls = [line.partition("stablehlo.composite ")[2] for line in lines]
    return [re.sub(r"decomposition = @[^,}]*", "…", call) for call in calls if call]


def test_vendor_entries_are_asked_before_builtin_ones() -> None:
    x = data(4, 6)
    with composites.enabled("gelu", "gelu_tanh"):
        assert composite_calls(F.gelu(x))[0].startswith('"ptxla.gelu"')
        assert composite_calls(F.gelu(x, approximate="tanh"))[0].startswith('"acme.gelu_tanh"')


def test_a_vendor_shadows_a_builtin_entry_and_orders_operands() -> None:
    x = data(4, 6).requires_grad_()
    with composites.enabled("hardswish"):
        assert composites.active() == ("acme.hardswish", "acme.hardswish_grad")
        F.hardswish(x).backward(data(4, 6) * 2)
        (call,) = composite_calls(gradient_of(x))
        assert call.startswith('"acme.hardswish_grad" ')
    expected = x.detach().cpu().requires_grad_()
    F.hardswish(expected).backward(data(4, 6).cpu() * 2)
    torch.testing.assert_close(gradient_of(x).cpu(), expected.grad)


def test_a_stock_lowering_that_falls_back_to_the_cpu_stays_stock() -> None:
    a, b, c = data(4, 6), data(6, 2), data(4, 2)
    with composites.enabled("addmm"):
        assert len(composite_calls(torch.addmm(c, a, b))) == 1
        scaled = torch.addmm(c, a, b, beta=2, alpha=0.5)
        assert composite_calls(scaled) == []
    expected = torch.addmm(c.cpu(), a.cpu(), b.cpu(), beta=2, alpha=0.5)
    torch.testing.assert_close(scaled.cpu(), expected)


def test_a_decomposition_that_calls_its_own_operator_gets_the_stock_one(use: Use) -> None:
    use(GELU.format("recursive"))
    x = data(4, 6)
    with composites.enabled("umbra.gelu"):
        result = F.gelu(x)
        assert [call.split()[0] for call in composite_calls(result)] == ['"umbra.gelu"']
    torch.testing.assert_close(result.cpu(), F.gelu(x.cpu()) * 2)


def test_a_composite_inside_a_decomposition_stays_there(use: Use) -> None:
    use(GELU.format("softmax_samples"))
    x = data(4, 6)
    with composites.enabled("umbra.gelu", "softmax"):
        result = F.gelu(x)
        names = sorted(call.split()[0] for call in composite_calls(result))
        assert names == ['"ptxla.softmax"', '"umbra.gelu"']
        torch_xla.sync()
    torch.testing.assert_close(result.cpu(), x.cpu() * torch.softmax(x.cpu(), -1))


def test_a_backward_of_its_own_with_adapted_arguments(use: Use) -> None:
    use(
        "  square: {op: aten::square, adapt: acme.torch_ops:to_square,"
        " decomposition: acme.torch_ops:square, backward: slope}\n"
        "  slope: {gradients: [self], adapt: acme.torch_ops:to_slope,"
        " decomposition: acme.torch_ops:slope}\n"
    )
    with composites.enabled("square"):
        for shape, emitted in (((4, 6), ['"umbra.slope"']), ((24,), [])):
            x = data(*shape).requires_grad_()
            torch.square(x).backward(data(*shape))
            assert [call.split()[0] for call in composite_calls(gradient_of(x))] == emitted
            torch.testing.assert_close(x.grad, 2 * x.detach() * data(*shape))


DECOMPOSITION_ERRORS = {
    "wrong_shape": "gives tensor<f32>, but aten::gelu gives tensor<2x3xf32>",
    "fails": ": AttributeError: 'Tensor' object has no attribute",
    "branches": "ValueReadError: aten::_local_scalar_dense reads the value of a tensor",
    "prints": "ValueReadError: aten::",
    "carries_data": "reads data that is not an operand (tensor<3xf32>); make constants from num",
}


def test_a_decomposition_that_does_not_work_says_so(use: Use) -> None:
    for function, problem in DECOMPOSITION_ERRORS.items():
        composites.disable()
        path = use(GELU.format(function))
        with composites.enabled("umbra.gelu"), pytest.raises(composites.LoweringError) as raised:
            F.gelu(data(2, 3))
        message = str(raised.value)
        assert message.startswith(f"{path}:4: umbra.gelu: ")
        assert f"acme.torch_ops:{function}" in message or function == "carries_data"
        assert problem in message


def test_two_vendors_cannot_claim_every_call_of_an_operator(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = use("  fast_gelu: {op: aten::gelu}\n"), tmp_path / "nova.yaml"
    second.write_text("schema: 1\nnamespace: nova\ncomposites:\n  small_gelu: {op: aten::gelu}\n")
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", f"{first}:{second}")
    with pytest.raises(composites.AllowlistError) as raised:
        composites.enable("fast_gelu", "small_gelu")
    assert str(raised.value) == (
        f"umbra.fast_gelu ({first}:4) and nova.small_gelu ({second}:4) both claim every call of"
        " aten::gelu; turn one off, or give one a `when`"
    )
    assert composites.active() == ()


def test_what_is_refused_leaves_the_rest_on(use: Use) -> None:
    use("  norm: {op: aten::native_layer_norm}\n")
    composites.enable("gelu")
    with pytest.raises(composites.AllowlistError, match="before its XLA kernel is called"):
        composites.enable("silu", "norm")
    assert composites.active()[:2] == ("ptxla.gelu", "ptxla.gelu_backward")
    assert not any("norm" in name or "silu" in name for name in composites.active())
    assert len(composite_calls(F.gelu(data(2, 3)))) == 1
