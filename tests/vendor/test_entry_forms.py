"""Vendor entries: chosen results, conditions, adapted arguments, backwards of their own."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from composites_testing.vendor_calls import umbra_composites

from composites.errors import LoweringError, UnsupportedCallError

Enable = Callable[[str], None]


def leaf(*shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape).to("xla").requires_grad_()


def test_some_results_of_a_backend_operator(enable: Enable) -> None:
    enable("  values: {op: aten::topk, results: [0], attributes: {k: k}}\n")
    x = leaf(4, 8)
    values, indices = x.topk(2)
    assert (umbra_composites(values), umbra_composites(indices)) == (["values"], [])
    expected = x.detach().cpu().topk(2)
    assert torch.equal(values.detach().cpu(), expected.values)
    assert torch.equal(indices.cpu(), expected.indices)


def test_some_results_where_autograd_sees_the_operator(enable: Enable) -> None:
    enable(
        "  norm:\n    op: aten::native_layer_norm\n    results: [0]\n    backward: derive\n"
        "    attributes: {normalized_shape: normalized_shape, eps: eps}\n"
    )
    x = leaf(4, 8)
    output, mean, _ = torch.native_layer_norm(x, (8,), None, None, 1e-5)
    (gradient,) = torch.autograd.grad(output.square().sum() + mean.sum(), [x])
    assert sorted(umbra_composites(output, gradient)) == ["norm", "norm_backward"]
    on_cpu = x.detach().cpu().requires_grad_()
    expected, means, _ = torch.native_layer_norm(on_cpu, (8,), None, None, 1e-5)
    (theirs,) = torch.autograd.grad(expected.square().sum() + means.sum(), [on_cpu])
    torch.testing.assert_close(gradient.cpu(), theirs)


CLAIMS = {
    "not is_causal or query.shape[-2] == key.shape[-2]": [True, False, True],
    "attn_mask is not None": [False, False, True],
    "query.dtype == f32 and key.dim() in (3, 4)": [True, True, True],
    "query.shape[-1] % 16 == 0": [False, False, False],
    "len(query.shape) == 4 if is_causal else attn_mask is None": [True, True, False],
}


@pytest.mark.parametrize("condition", CLAIMS)
def test_conditions(enable: Enable, condition: str) -> None:
    enable(
        "  sdpa:\n    op: aten::scaled_dot_product_attention\n    backward: derive\n"
        f"    when: {{where: [{condition!r}]}}\n"
    )
    q, k, mask = leaf(1, 2, 4, 8), leaf(1, 2, 6, 8), torch.zeros(4, 6, device="xla")
    results = [
        F.scaled_dot_product_attention(q, q, q, is_causal=True),
        F.scaled_dot_product_attention(q, k, k, is_causal=True),
        F.scaled_dot_product_attention(q, k, k, mask),
    ]
    assert [bool(umbra_composites(result)) for result in results] == CLAIMS[condition]


@pytest.mark.parametrize("backward", ["", ", backward: derive"])
def test_a_condition_that_cannot_be_evaluated_names_its_entry(
    enable: Enable, tmp_path: Path, backward: str
) -> None:
    condition = "self.shape[1] > 2"
    enable(f"  gelu: {{op: aten::gelu, when: {{where: [{condition!r}]}}{backward}}}\n")
    assert umbra_composites(F.gelu(leaf(2, 8))) == ["gelu"]
    with pytest.raises(LoweringError) as raised:
        F.gelu(leaf(8))
    assert str(raised.value) == (
        f"{tmp_path / 'umbra.yaml'}:4: umbra.gelu: when: {condition!r} cannot be evaluated"
        " for 8xf32 (IndexError: tuple index out of range); begin it with a condition under"
        " which it can be, as in `self.dim() == 2 and …`"
    )
    assert umbra_composites(F.gelu(leaf(2, 8))) == ["gelu"]


FUNCTIONS = """\
import torch
def doubled(a: torch.Tensor, note: str | None = None) -> torch.Tensor:
    return torch.sin(a) * 2
"""


@pytest.mark.parametrize("condition", ["a.shape[1] > 2", "len(note) > 2"])
def test_a_condition_that_cannot_be_evaluated_names_its_entry_when_compiled(
    enable: Enable, condition: str
) -> None:
    enable(
        "  f:\n    function: umbra_ops:doubled\n    operands: [a]\n"
        "    attributes: {note: {from: note, optional: true}}\n"
        f"    when: {{where: [{condition!r}]}}\n    backward: derive\n"
    )
    import umbra_ops  # type: ignore[import-not-found]

    torch._dynamo.reset()
    compiled = torch.compile(lambda a, note: umbra_ops.doubled(a, note) + 1, backend="openxla")
    # Dynamo shows the lines that it traced.
    with pytest.raises(Exception, match=rf"umbra\.f.*umbra\.yaml:4(.|\n)*{re.escape(condition)}"):
        compiled(leaf(4), None)
    result = compiled(leaf(4, 4), "much")
    torch.testing.assert_close(result.cpu(), umbra_ops.doubled(leaf(4, 4).cpu()) + 1)


def test_infinity_in_a_condition_and_a_constant(enable: Enable) -> None:
    enable(
        "  clip:\n    op: aten::leaky_relu\n    when: {negative_slope: .inf}\n"
        "    attributes: {slope: {value: .inf}}\n"
    )
    x = leaf(4).detach()
    claimed, stock = F.leaky_relu(x, float("inf")), F.leaky_relu(x, 0.5)
    assert (umbra_composites(claimed), umbra_composites(stock)) == (["clip"], [])
    assert "slope = 0x7F800000 : f32" in xm.get_stablehlo([claimed])


def test_an_absent_operand_before_a_present_one_takes_the_stock_route(enable: Enable) -> None:
    enable("  norm: {op: aten::native_layer_norm, backward: derive}\n")
    x, bias = leaf(4, 8), leaf(8)
    assert umbra_composites(F.layer_norm(x, (8,), None, bias)) == []
    assert umbra_composites(F.layer_norm(x, (8,), bias, None)) == ["norm"]
    torch.testing.assert_close(
        F.layer_norm(x, (8,), None, bias).cpu(), F.layer_norm(x.cpu(), (8,), None, bias.cpu())
    )


def scale_to_unit(composite: Callable[..., torch.Tensor], input: torch.Tensor) -> torch.Tensor:
    """Takes rows outside; refuses scalars."""
    if input.dim() == 0:
        raise UnsupportedCallError("a scalar has no rows")
    return composite(input.reshape(-1, input.shape[-1]), power=2).reshape(input.shape)


def rows(input: torch.Tensor, *, power: int) -> torch.Tensor:
    return torch.relu(input) ** power


def rows_backward(grad_output: torch.Tensor, input: torch.Tensor, *, power: int) -> torch.Tensor:
    return grad_output * power * input.clamp(min=0) ** (power - 1)


@pytest.mark.parametrize("backward", ["derive", "rows_backward"])
def test_adapted_arguments(enable: Enable, backward: str) -> None:
    here = __name__
    enable(
        f"  rows:\n    op: aten::relu\n    adapt: {here}:scale_to_unit\n"
        f"    decomposition: {here}:rows\n    attributes: {{power: power}}\n"
        f"    backward: {backward}\n"
        f"  rows_backward:\n    gradients: [input]\n    decomposition: {here}:rows_backward\n"
        "    attributes: {power: power}\n"
    )
    x = leaf(2, 3, 4)
    result = torch.relu(x)
    (gradient,) = torch.autograd.grad(result.sum(), [x])
    assert sorted(umbra_composites(result, gradient)) == ["rows", "rows_backward"]
    assert "tensor<6x4xf32>" in xm.get_stablehlo([result])
    torch.testing.assert_close(result.detach().cpu(), torch.relu(x.detach().cpu()) ** 2)
    torch.testing.assert_close(gradient.cpu(), 2 * torch.relu(x.detach().cpu()))
    with torch.inference_mode():
        assert umbra_composites(torch.relu(leaf(2, 4).detach())) == ["rows"]
    scalar = torch.tensor(2.0, device="xla")
    assert torch.relu(scalar).item() == 2.0
    assert umbra_composites(torch.relu(scalar)) == []


def jax_silu_backward(grad_output: object, input: object) -> object:
    import jax

    return jax.vjp(jax.nn.silu, input)[1](grad_output)[0]


def test_a_jax_decomposition_above_the_backend(enable: Enable) -> None:
    enable(
        "  silu_backward:\n    op: aten::silu_backward\n"
        f"    decomposition: jax:{__name__}:jax_silu_backward\n"
    )
    x = leaf(4, 8)
    (gradient,) = torch.autograd.grad(F.silu(x).sum(), [x])
    assert umbra_composites(gradient) == ["silu_backward"]
    on_cpu = x.detach().cpu().requires_grad_()
    (expected,) = torch.autograd.grad(F.silu(on_cpu).sum(), [on_cpu])
    torch.testing.assert_close(gradient.cpu(), expected)


def test_a_random_operator_at_the_backend_stays_stock(enable: Enable) -> None:
    x = torch.ones(4, 8, device="xla")
    xm.set_rng_state(3)
    expected = torch.ops.aten.native_dropout(x, 0.5, True)[0].cpu()
    enable("  noise: {op: aten::native_dropout, attributes: {p: p}}\n")
    xm.set_rng_state(3)
    result = torch.ops.aten.native_dropout(x, 0.5, True)[0]
    assert umbra_composites(result) == []
    assert torch.equal(result.cpu(), expected)
