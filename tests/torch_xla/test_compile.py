"""torch.compile(backend="openxla"): forward and backward are composites there too.

Forward and backward are two programs then, so XLA cannot see that a derived backward computes what
the forward has computed. Gradients are stock's but for rounding, results have its bits.
"""

from collections import Counter
from collections.abc import Callable, Mapping

import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from composites_testing.selection import variants
from composites_testing.tensors import gradient_of, values
from composites_testing.written import written_composites
from torch import nn
from transformers import LlamaConfig
from transformers.activations import NewGELUActivation
from transformers.models.llama import modeling_llama
from transformers.models.t5.modeling_t5 import T5LayerNorm

import composites
from lowering.verification.bits import same_bits

Function = Callable[..., torch.Tensor]


pytestmark = pytest.mark.usefixtures("compiled_graphs")  # which also resets Dynamo


def compiled(
    function: Function, *inputs: torch.Tensor, requires_grad: bool, dynamic: bool | None = None
) -> Mapping[str, torch.Tensor]:
    """The result of a compiled function and its gradients."""
    torch._dynamo.reset()
    xm.set_rng_state(0)
    run = torch.compile(function, backend="openxla", fullgraph=True, dynamic=dynamic)
    leaves = [t.detach().requires_grad_(requires_grad) for t in inputs]
    result = run(*leaves)
    tensors = {"result": result.detach().cpu()}
    if requires_grad:
        result.backward(values(max(result.numel(), 1), seed=9).reshape(result.shape))
        tensors |= {f"gradient {n}": gradient_of(leaf).cpu() for n, leaf in enumerate(leaves)}
    return tensors


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


OPERATORS: dict[str, tuple[Function, tuple[tuple[int, ...], ...]]] = {
    "scaled_dot_product_attention": (attention, ((2, 3, 5, 4),) * 3),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (6,), w, b), ((4, 6), (6,), (6,))),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), ((2, 4, 3), (4,), (4,))),
    "rms_norm": (lambda x, w: F.rms_norm(x, (6,), w, 1e-5), ((4, 6), (6,))),
    "cross_entropy_loss": (lambda x: F.cross_entropy(x, torch.arange(4).to("xla")), ((4, 6),)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), ((1, 2, 6, 6),)),
}


def under_autocast(function: Function) -> Function:
    def run(*inputs: torch.Tensor) -> torch.Tensor:
        with torch.autocast("xla", dtype=torch.bfloat16):
            return function(*inputs)

    return run


@variants(
    ("name", "mode"),
    [(name, mode) for mode in ("no_grad", "inference_mode", "enable_grad") for name in OPERATORS],
)
def test_autocast(compiled_graphs: list[str], name: str, mode: str) -> None:
    """The composite has the bits of stock outside of torch.compile, also without gradients."""
    function, shapes = OPERATORS[name]
    inputs = [values(*shape, seed=n) for n, shape in enumerate(shapes)]
    run = under_autocast(function)
    stock = run(*inputs)
    compiled_graphs.clear()
    with composites.enabled(name), getattr(torch, mode)():
        ours = compiled(run, *inputs, requires_grad=mode == "enable_grad")
    assert written_composites(compiled_graphs[0]) == {f"ptxla.{name}": 1}
    assert same_bits(ours["result"], stock.cpu())


def test_only_wanted_gradients_are_computed(compiled_graphs: list[str]) -> None:
    weight, bias = values(6, seed=1).requires_grad_(), values(6, seed=2)
    with composites.enabled("layer_norm"):
        run = torch.compile(lambda x: F.layer_norm(x, (6,), weight, bias), backend="openxla")
        run(values(4, 6)).backward(values(4, 6, seed=3))
    assert "output_mask = dense<[false, true, false]>" in compiled_graphs[-1]
    assert weight.grad is not None


@variants(
    "function",
    [
        lambda x: F.dropout(x, 0.4),
        lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.4),
        lambda x: F.batch_norm(x[0], None, None, training=True),
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    ],
    ids=["dropout", "attention with dropout", "batch_norm", "upsample_bilinear2d"],
)
def test_what_torch_has_a_kernel_in_python_for(function: Function) -> None:
    """torch.compile calls these kernels; dropout's draws other numbers than the one in C++."""
    x = values(2, 3, 4, 4)
    stock = compiled(function, x, requires_grad=True)
    with composites.enabled("all"):
        ours = compiled(function, x, requires_grad=True)
    torch.testing.assert_close(ours, stock, rtol=1e-5, atol=1e-6)


@composites.composite("acme.cube", attributes=("scale",))
def cube(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    return x * x * x * scale


def rotated(q: torch.Tensor, k: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    # Looked up when it is called, as a model does.
    return torch.cat(modeling_llama.apply_rotary_pos_emb(q, k, angles.cos(), angles.sin()))


def module(made: nn.Module) -> Function:
    return made.to("xla").requires_grad_(False)


MLP = LlamaConfig(hidden_size=6, intermediate_size=10, num_attention_heads=2)
FUNCTIONS: dict[str, tuple[Callable[[], Function], tuple[tuple[int, ...], ...]]] = {
    "ptxla.rms_norm, of Llama": (lambda: module(modeling_llama.LlamaRMSNorm(6)), ((4, 6),)),
    "ptxla.rms_norm, of T5": (lambda: module(T5LayerNorm(6)), ((4, 6),)),
    "ptxla.gelu": (lambda: module(NewGELUActivation()), ((4, 6),)),
    "ptxla.rotary_embedding": (lambda: rotated, ((2, 3, 5, 4), (2, 3, 5, 4), (2, 5, 4))),
    "ptxla.swiglu": (lambda: module(modeling_llama.LlamaMLP(MLP)), ((2, 5, 6),)),
    "acme.cube": (lambda: lambda x: cube(x.exp(), 0.5), ((4, 6),)),
}
FAST = ("layer_norm", "rms_norm", "ptxla.rms_norm, of Llama", "ptxla.swiglu", "acme.cube")


@pytest.mark.parametrize("requires_grad", [True, False], ids=["forward and backward", "forward"])
@variants("name", [*OPERATORS, *FUNCTIONS], fast=FAST)
def test_composites_each_way(compiled_graphs: list[str], name: str, requires_grad: bool) -> None:
    """Dynamo reads what prepares operands of Python functions, and keeps the composite as one
    node. The backward of most operators is derived."""
    make, shapes = FUNCTIONS.get(name) or ((lambda: OPERATORS[name][0]), OPERATORS[name][1])
    function = make()
    inputs = [values(*shape, seed=n) for n, shape in enumerate(shapes)]
    stock = compiled(function, *inputs, requires_grad=requires_grad)
    if not name.startswith("acme."):
        assert not any(written_composites(graph) for graph in compiled_graphs)
    compiled_graphs.clear()
    with composites.enabled(*((name,) if name in OPERATORS else ("all", "-silu"))):
        ours = compiled(function, *inputs, requires_grad=requires_grad)
    assert same_bits(ours["result"], stock["result"])
    torch.testing.assert_close(ours, stock, rtol=1e-5, atol=1e-6)
    composite = f"ptxla.{name}" if name in OPERATORS else name.partition(",")[0]
    expected = [{composite: 1}, {f"{composite}_backward": 1}]
    names = [written_composites(graph) for graph in compiled_graphs]
    assert names == expected[: 1 + requires_grad]


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))

    @composites.composite("acme.scaled", operands=("x", "self.scale"))
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def reads_another_tensor() -> Function:
    weight = values(6, seed=3)

    @composites.composite("acme.weighted")
    def weighted(x: torch.Tensor) -> torch.Tensor:
        return x * weight

    return weighted


@composites.composite("acme.shifted")
def shifted(x: torch.Tensor) -> torch.Tensor:
    return x + SHIFT


SHIFT = values(6, seed=3)


@composites.composite("acme.named")
def named(x: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"double": x + x}


@composites.composite("acme.listed")
def listed(tensors: list[torch.Tensor]) -> torch.Tensor:
    return tensors[0] + tensors[1]


PLAIN: dict[str, tuple[Callable[[], Function], bool]] = {
    "a method, which reads its object": (lambda: Scaled().to("xla"), False),
    "reads a tensor that is not an argument": (reads_another_tensor, False),
    "reads a global tensor": (lambda: shifted, False),
    "returns a dictionary": (lambda: lambda x: named(x)["double"], False),
    "takes a list of tensors": (lambda: lambda x: listed([x, x]), True),
}
"""A function, and True if a graph can hold its composite, by name."""


@variants("name", PLAIN, fast=["a method, which reads its object", "takes a list of tensors"])
def test_functions_that_no_graph_can_hold_are_what_they_are(
    name: str, compiled_graphs: list[str]
) -> None:
    make, is_composite = PLAIN[name]
    function, x = make(), values(4, 6)
    ours = compiled(function, x, requires_grad=True)
    assert any(written_composites(graph) for graph in compiled_graphs) == is_composite
    leaf = x.detach().requires_grad_()
    result = function(leaf)
    result.backward(values(*result.shape, seed=9))
    assert same_bits(ours["result"], result.detach())
    torch.testing.assert_close(ours["gradient 0"], gradient_of(leaf).cpu())


@pytest.mark.slow
def test_a_compiled_update() -> None:
    """The functions of torch.optim write into their arguments."""

    def run() -> tuple[torch.Tensor, Counter[str]]:
        torch._dynamo.reset()
        parameter = nn.Parameter(values(4, 6))
        optimizer = torch.optim.AdamW([parameter], lr=0.1, capturable=True)
        update = torch.compile(optimizer.step, backend="aot_eager")
        counts: Counter[str] = Counter()
        for seed in range(3):
            parameter.grad = values(4, 6, seed=seed)
            update()
            counts = written_composites(xm.get_stablehlo([parameter.detach()]))
            torch_xla.sync()
        return parameter.detach().cpu(), counts

    stock, none = run()
    with composites.enabled("adamw"):
        ours, counts = run()
    assert not none
    assert counts == {"ptxla.adamw": 1}
    torch.testing.assert_close(ours, stock)


@variants(
    ("make", "rows"),
    [
        (lambda: lambda x: F.rms_norm(x, (6,)), 4),
        *((FUNCTIONS["ptxla.rms_norm, of Llama"][0], rows) for rows in (4, 5)),
    ],
    fast=2,
)
def test_graphs_for_any_size_are_stock(
    compiled_graphs: list[str], make: Callable[[], Function], rows: int
) -> None:
    """A composite is traced for one size."""
    function = make()
    stock = compiled(function, values(rows, 6), requires_grad=True, dynamic=True)
    with composites.enabled("all"):
        ours = compiled(function, values(rows, 6), requires_grad=True, dynamic=True)
    assert not any(written_composites(graph) for graph in compiled_graphs)
    assert all(same_bits(stock[name], ours[name]) for name in stock)


def test_exported_programs_refer_to_nothing_of_this_process() -> None:
    module = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6)).to("xla")
    x = values(4, 6)
    with composites.enabled("all"):
        program = torch.export.export(module, (x,)).run_decompositions()
    called = {str(node.target) for node in program.graph.nodes}
    assert "composites.forward.default" not in called
    torch.testing.assert_close(program.module()(x).cpu(), module(x).cpu())
