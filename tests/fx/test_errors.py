"""Code that depends on values raises one clear error, with the operator and the line."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from composites_testing.modules import CallingWithWeight

import composites
from composites import ExportError, torch_internals
from lowering.frontends.aten_in_jax.table import RULES
from lowering.frontends.fx import capture


class Calling(torch.nn.Module):
    """A module as in `composites_testing.modules`, in this file, whose lines the errors name."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """Four dimensions, of which PyTorch keeps the second one last."""
    return x[None, :, :, None].permute(0, 3, 1, 2) * 1


# Others are in tests/export/test_errors.py.
CASES: dict[str, tuple[Callable[[torch.Tensor], Any], str]] = {
    "unique": (torch.unique, "aten::_unique2"),
    "masked_select": (lambda x: torch.masked_select(x, x > 0), "aten::masked_select"),
    "a mask as an index": (lambda x: x[x > 0], "aten::nonzero|aten::index"),
    "equal": (lambda x: x * torch.equal(x, x + 1), "aten::equal"),
    "tolist": (lambda x: x * sum(x.reshape(-1).tolist()), "aten::"),
}


def test_operators_that_depend_on_values() -> None:
    for function, operator in CASES.values():
        with pytest.raises(ExportError, match=operator) as caught:
            composites.export(Calling(function), (torch.randn(3, 4),), frontend="fx")
        message = str(caught.value)
        assert message.startswith(f"{__file__}:")
        assert "exported program takes the same path for all values" in message
        assert message.count("\n") == 0
    with pytest.raises(ExportError, match=r"aten::linalg_eig has no rule in JAX") as caught:
        composites.export(Calling(torch.linalg.eigvals), (torch.randn(3, 3),), frontend="fx")
    assert str(caught.value).startswith(f"{__file__}:")


CAPTURED = torch.tensor(3.0)
CAPTURED_VECTOR = torch.full((3,), 3.0)


CAPTURING: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda x: x * CAPTURED,
    lambda x: x * CAPTURED.to(x.device),
    lambda x: x * CAPTURED_VECTOR,
    lambda x: x * CAPTURED_VECTOR[0].to(x.device),
    lambda x: x + CAPTURED_VECTOR.sum(),
)


def test_a_decomposition_with_a_captured_tensor_is_no_composite() -> None:
    for number, function in enumerate(CAPTURING):
        composed = composites.composite(f"acme.captured_on_fx_{number}")(function)
        program = composites.export(Calling(composed), (torch.ones(3),), frontend="fx")
        assert "stablehlo.composite" not in program.mlir
        *_, fallback = composites.stats().entries[f"acme.captured_on_fx_{number}"].fallbacks
        assert "reads a CPU tensor that is not an operand (torch.float32" in fallback.reason


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": lambda x: x.t() * 1,
    "a part": lambda x: x[::2],
    "by strides": lambda x: x.as_strided((2, 2), (1, 2), 1),
    "concatenated": lambda x: torch.cat([channels_last(x)] * 2),
    "padded": lambda x: F.pad(channels_last(x), (1, 1)),
    "of a format": lambda x: x[None, :, :, None].contiguous(memory_format=torch.channels_last),
}


def test_a_view_of_memory_of_unknown_order() -> None:
    def strided(view: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(view(x), (2,), (3,))

    for view in VIEWS.values():
        module = Calling(partial(strided, view))
        with pytest.raises(ExportError, match="aten::as_strided depends on the memory layout"):
            composites.export(module, (torch.randn(3, 4),), frontend="fx")


def test_an_operator_of_a_backward_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in a backward that PyTorch has in C++ would end the process at once."""
    missing, table = torch.ops.aten.sigmoid_backward.default, capture._decompositions(True)
    monkeypatch.delitem(RULES, missing, raising=False)
    remaining = {operator: function for operator, function in table.items() if operator != missing}
    monkeypatch.setattr(capture, "_decompositions", lambda options: remaining)
    monkeypatch.setattr(torch_internals, "decomposition_of", lambda operator: None)

    for _ in range(2):
        with pytest.raises(ExportError, match="aten::sigmoid_backward has no rule in JAX"):
            composites.export(CallingWithWeight(torch.sigmoid), (), train=True, ops=[])


FUNCTIONS = """\
def gelu(self, *, approximate="none"):
    return self.reshape(7)
"""


def test_an_error_in_a_decomposition_names_its_line(
    use: Callable[[str], str], tmp_path: Path
) -> None:
    registry = use("  gelu: {op: aten::gelu, decomposition: umbra_ops:gelu}\n")
    with pytest.raises(composites.LoweringError) as raised:
        composites.export(Calling(F.gelu), (torch.ones(2, 3),), ops=["umbra.gelu"])
    assert str(raised.value).startswith(
        f"{registry}:4: umbra.gelu: decomposition umbra_ops:gelu failed for tensor<2x3xf32>:"
        f" {tmp_path}/umbra_ops.py:2: RuntimeError: "
    )


def test_a_tensor_of_another_device_names_its_line() -> None:
    def spectrum(x: torch.Tensor) -> torch.Tensor:
        return torch.stft(x, 8, window=torch.ones(8, device="cpu"), return_complex=True).abs()

    with pytest.raises(ExportError, match="combines a traced tensor") as raised:
        composites.export(Calling(spectrum), (torch.ones(2, 32),))
    assert str(raised.value).startswith(f"{__file__}:")
