"""The ways PyTorch can run a function, with composites on: the numbers of stock, as composites."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from composites_testing.processes import run_python
from composites_testing.subjects import Subjects
from composites_testing.tensors import gradient_of, values
from composites_testing.written import written_composites
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode

import composites

FORWARD = {"gelu", "softmax", "log_softmax", "silu", "hardswish", "mish", "elu"}
BACKWARD = {f"{name}_backward" for name in FORWARD}
IMPLICIT = {"silu_backward", "mish_backward"}
"""Backwards that PyTorch decomposes where autograd has to see them, as torch.func always does."""

Named = Mapping[str, Any]
SameAsStock = Callable[..., Any]


def network(x: torch.Tensor) -> torch.Tensor:
    """Every operator of the registry."""
    x = F.elu(F.mish(F.hardswish(F.silu(F.gelu(x)))))
    return F.softmax(x, dim=-1) + F.log_softmax(2 * x, dim=-1)


def forward_and_backward(function: Callable[[torch.Tensor], torch.Tensor] = network) -> Named:
    leaf, weight = values(16, 32).requires_grad_(), values(32, 32, seed=1).requires_grad_()
    result = function(leaf @ weight)
    result.backward(values(*result.shape, seed=2).to(result.dtype))
    return {"result": result, "gradient": leaf.grad, "weight's gradient": weight.grad}


# torch.compile


def test_compiled_function_outlives_its_composites(compiled_graphs: list[str]) -> None:
    """A graph for any size is lowered for one more size after composites were turned off."""
    function = torch.compile(network, backend="openxla", dynamic=True)

    def gradient(rows: int) -> torch.Tensor:
        leaf = values(rows, 32).requires_grad_()
        function(leaf).backward(values(rows, 32, seed=1))
        return gradient_of(leaf).cpu()

    with composites.enabled("all"):
        expected = gradient(8)
        gradient(4)
    torch._dynamo.reset()
    with composites.enabled("all"):
        gradient(4)
    compiled_graphs.clear()
    torch.testing.assert_close(gradient(8), expected)
    assert len(compiled_graphs) == 2
    assert not any(written_composites(graph) for graph in compiled_graphs)


# Autograd's modes


def autocast(function: Callable[[torch.Tensor], torch.Tensor], result_type: torch.dtype) -> Named:
    with torch.autocast("xla", dtype=torch.bfloat16):
        named = forward_and_backward(function)
    assert named["result"].dtype == result_type
    assert named["weight's gradient"].dtype == torch.float32
    return named


AUTOCAST_AND_SYNC = """
import torch, torch_xla, composites
from lowering.verification.bits import same_bits

def step(sync_inside, backward_inside):
    torch.manual_seed(0)
    operands = [torch.randn(2, 4, 16, 8).to("xla").requires_grad_() for _ in range(3)]
    with torch.autocast("xla", torch.bfloat16):
        result = torch.nn.functional.scaled_dot_product_attention(*operands)
        loss = result.float().square().sum()
        if sync_inside:
            torch_xla.sync(wait=True)
        if backward_inside:
            loss.backward()
            torch_xla.sync(wait=True)
    if not backward_inside:
        loss.backward()
    torch_xla.sync(wait=True)
    return [tensor.detach().cpu() for tensor in (result, *(x.grad for x in operands))]

for inside in [(False, False), (False, True), (True, False), (True, True)]:
    composites.disable()
    stock = step(*inside)
    composites.enable("all")
    assert all(map(same_bits, step(*inside), stock)), inside
"""


@pytest.mark.process
def test_a_sync_after_autocast_computes_no_placeholders() -> None:
    # Autocast keeps casts of leaves. Those of placeholders have no data; the process would end.
    run_python(AUTOCAST_AND_SYNC).succeeded()


def inference() -> Named:
    with torch.inference_mode():
        inside = network(values(16, 32))
    return {"inside": inside, "outside": network(inside.clone())}


def no_grad() -> Named:
    with torch.no_grad():
        return {"result": network(values(16, 32).requires_grad_())}


def attention_and_norm(x: torch.Tensor) -> torch.Tensor:
    keys = x.detach()  # one gradient, as sums of several may have another order
    return F.layer_norm(F.scaled_dot_product_attention(x, keys, keys), (8,))


def counting_flops(*, forward: bool, backward: bool) -> Named:
    counter = FlopCounterMode(display=False)
    leaf = values(1, 2, 16, 8).requires_grad_()
    with counter if forward else nullcontext():
        result = attention_and_norm(leaf)
    with counter if backward else nullcontext():
        result.backward(values(1, 2, 16, 8, seed=1))
    assert counter.get_total_flops()
    return {"gradient": leaf.grad, "FLOPs": counter.get_total_flops()}


def selective_checkpoint() -> Named:
    asked: list[str] = []

    def policy(context: Any, operator: Any, *arguments: Any, **keywords: Any) -> CheckpointPolicy:
        asked.append(str(operator))
        saved = operator is torch.ops.aten.bmm.default
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    leaf = values(1, 2, 16, 8).requires_grad_()
    result = torch.utils.checkpoint.checkpoint(
        lambda: attention_and_norm(leaf),  # torch 2.9 takes no argument on the XLA device
        use_reentrant=False,
        context_fn=partial(create_selective_checkpoint_contexts, policy),
    )
    result.backward(values(1, 2, 16, 8, seed=1))
    assert asked.count("aten.bmm.default") == 4
    return {"gradient": leaf.grad, "asked": " ".join(asked)}


GELU = {"gelu", "gelu_backward"}
SOFTMAX = {"softmax", "softmax_backward"}
MODES: dict[str, tuple[Callable[[], Named], set[str]]] = {
    "autocast": (partial(autocast, network, torch.float32), FORWARD | BACKWARD),
    "autocast of one operator": (partial(autocast, F.gelu, torch.bfloat16), GELU),
    "inference mode, and its tensors outside": (inference, FORWARD),
    "no_grad": (no_grad, FORWARD),
    "FLOPs": (partial(counting_flops, forward=True, backward=True), SOFTMAX),
    "FLOPs of a forward": (partial(counting_flops, forward=True, backward=False), SOFTMAX),
    "FLOPs of a backward": (
        partial(counting_flops, forward=False, backward=True),
        SOFTMAX | {"scaled_dot_product_attention"},
    ),
    "selective checkpointing": (selective_checkpoint, SOFTMAX),
}


# torch.func, and batched gradients


def scalar(x: torch.Tensor) -> torch.Tensor:
    return network(x).square().sum()


TRANSFORMS: dict[str, tuple[Callable[[], Any], set[str]]] = {
    "grad": (lambda: torch.func.grad(scalar)(values(16, 32)), (FORWARD | BACKWARD) - IMPLICIT),
    "jvp": (
        lambda: torch.func.jvp(network, (values(16, 32),), (values(16, 32, seed=1),)),
        # The derivatives of the softmaxes that run forward are made of small operators.
        (FORWARD | BACKWARD) - IMPLICIT - {"softmax_backward", "log_softmax_backward"},
    ),
    "vmap": (lambda: torch.func.vmap(network)(values(16, 32)), FORWARD),
    "gradient of each row": (
        lambda: torch.func.vmap(torch.func.grad(scalar))(values(16, 32)),
        (FORWARD | BACKWARD) - IMPLICIT,
    ),
    "grad of grad": (
        lambda: torch.func.grad(lambda x: torch.func.grad(scalar)(x).square().sum())(
            values(16, 32)
        ),
        (FORWARD | BACKWARD) - IMPLICIT,
    ),
    "hessian": (
        lambda: torch.func.hessian(lambda x: F.gelu(x).square().sum())(values(32)),
        {"gelu", "gelu_backward"},
    ),
}


def transformed(function: Callable[[], Any]) -> Named:
    results = function()
    results = results if isinstance(results, tuple) else (results,)
    return {f"result {i}": result for i, result in enumerate(results)}


def jacobian(name: str) -> Named:
    leaf = values(8).requires_grad_()
    result = getattr(F, name)(leaf)
    rows = torch.eye(8).to("xla")
    return {"jacobian": torch.autograd.grad(result, leaf, rows, is_grads_batched=True)[0]}


def test_modes_and_transforms(all_same_as_stock: SameAsStock) -> None:
    all_same_as_stock(
        *(Subjects({name: run}, emits=emits) for name, (run, emits) in MODES.items()),
        *(
            Subjects({f"torch.func, {name}": partial(transformed, function)}, emits=emits)
            for name, (function, emits) in TRANSFORMS.items()
        ),
        *(
            Subjects({f"batched, {name}": partial(jacobian, name)}, emits={f"{name}_backward"})
            for name in ("gelu", "silu", "mish", "hardswish", "elu")
        ),
    )


def test_a_fallback_names_the_dispatch_mode() -> None:
    with composites.enabled("layer_norm"), FlopCounterMode(display=False):
        F.layer_norm(values(2, 8), (8,))
    fallbacks = composites.stats().entries["ptxla.layer_norm"].fallbacks
    assert "a dispatch mode is on (FlopCounterMode)" in [f.reason for f in fallbacks]
