"""torch_xla's eager mode runs each operator at once; decompositions are still only traced."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as metrics
from torch_xla.experimental.eager import eager_mode_context

import composites


def executions() -> int:
    """The number of programs that this process has executed."""
    xm.wait_device_ops()
    data = [metrics.metric_data(name) for name in ("ExecuteTime", "EagerOpExecuteTime")]
    return sum(metric[0] for metric in data if metric)


def several_results() -> dict[str, Callable[[], object]]:
    """Calls whose composites have several results, at the backend and where autograd sees them."""
    x = torch.linspace(-1, 1, 60).reshape(4, 3, 5).to("xla")
    leaf = x.detach().requires_grad_()
    weight = torch.linspace(1, 2, 5).to("xla").requires_grad_()
    normed = F.layer_norm(leaf, [5], weight)
    direction = torch.ones_like(normed)
    return {
        "at the backend": lambda: torch.topk(x, 2),
        "where autograd sees it": lambda: torch.native_layer_norm(x, [5], None, None, 1e-5),
        "backward": lambda: torch.autograd.grad(
            normed, [leaf, weight], direction, retain_graph=True
        ),
    }


@pytest.mark.parametrize("name", ["at the backend", "where autograd sees it", "backward"])
def test_several_results_are_one_program(name: str) -> None:
    with eager_mode_context(True), composites.enabled("all"):
        call = several_results()[name]
        call()  # the first call of a kind is lowered too
        before = executions()
        results = call()
        assert isinstance(results, tuple)
        assert len(results) > 1
        assert executions() == before + 1
        text = torch_xla._XLAC._get_xla_tensors_text(list(results))
        assert text.count(" xla::device_data(") == text.count(" = ") == len(results)


def drawn() -> list[torch.Tensor]:
    """Random numbers before eager mode, in it by all ways of drawing them, and after it."""
    xm.set_rng_state(5)
    x, query = torch.ones(64, device="xla"), torch.ones(2, 4, 8, 8, device="xla")
    results = [F.dropout(x)]
    with eager_mode_context(True):
        results += [F.dropout(x), torch.rand(3, device="xla"), F.dropout(x)]
        leaf = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(F.dropout(leaf).square().sum(), leaf, create_graph=True)
        results += [gradient.detach(), *torch.autograd.grad(gradient.sum(), leaf)]
        results += [F.scaled_dot_product_attention(query, query, query, dropout_p=0.5)]
    results += [F.dropout(x), torch.rand(3, device="xla")]
    return [*(t.cpu() for t in results), torch.rand(3, device="xla").cpu()]


def test_random_numbers_are_those_of_stock() -> None:
    stock = drawn()
    with composites.enabled("all"):
        ours = drawn()
    assert [torch.equal(o, s) for o, s in zip(ours, stock, strict=True)] == [True] * len(stock)
