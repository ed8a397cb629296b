"""torch_xla's own sizes that vary: calls take the stock lowering, which keeps them."""

import warnings

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from composites_testing.modules import Calling
from torch.export import Dim
from torch_xla.stablehlo import exported_program_to_stablehlo

import composites
from composites import CompositesWarning


def marked() -> torch.Tensor:
    x = torch.randn(4, 8).to("xla")
    torch_xla._XLAC._xla_mark_dynamic(x, 0)
    return x


def text(*tensors: torch.Tensor) -> str:
    return str(xm.get_stablehlo(list(tensors)))


def network(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.nn.functional.gelu(x @ torch.ones(8, 6, device=x.device)), -1)


def test_a_marked_tensor_takes_the_stock_lowering() -> None:
    with composites.enabled("gelu", "softmax"):
        assert "stablehlo.composite" in text(network(torch.randn(4, 8).to("xla")))
        with pytest.warns(CompositesWarning, match="all composites are off now") as caught:
            x = marked()
        assert caught[0].filename == __file__
        assert not composites.active()
        lowered = text(network(x))
        assert "tensor<?x6xf32>" in lowered
        assert "stablehlo.composite" not in lowered
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            marked()  # nothing is on, so there is nothing to say
        composites.enable("gelu")
        assert "stablehlo.composite" in text(network(torch.randn(4, 8).to("xla")))
    assert not composites.active()


def test_torch_xlas_own_export_of_sizes_that_vary() -> None:
    sizes = (({0: Dim("batch", min=2)},),)
    graph = torch.export.export(Calling(network), (torch.randn(4, 8),), dynamic_shapes=sizes)
    stock = exported_program_to_stablehlo(graph).get_stablehlo_text()
    with composites.enabled("gelu", "softmax"), pytest.warns(CompositesWarning):
        assert exported_program_to_stablehlo(graph).get_stablehlo_text() == stock
    assert "tensor<?x" in stock
