"""`composites.wrap`: composites as operators in the graphs of other backends of torch.compile."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from composites_testing.processes import run_python
from composites_testing.selection import exhaustive
from composites_testing.transformer import Block, losses, made
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import composites
from composites.torch_internals import is_operator


class Recorder:
    """A backend that keeps its graphs, and runs them as they are."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.Graph] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
        self.graphs.append(graph.graph)
        return graph.forward

    def calls(self, graph: int) -> dict[str, torch.fx.Node]:
        """The calls of composites in a graph, by operator."""
        nodes = [n for n in self.graphs[graph].nodes if is_operator(n.target)]
        return {n.target.name(): n for n in nodes if n.target.namespace == "ptxla"}


def compiled(function: Any, backend: Any, **keywords: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend=composites.wrap(backend), **keywords)


@pytest.mark.parametrize("backend", [Recorder(), "aot_eager", *exhaustive("inductor")])
def test_a_model_trains_as_in_eager(backend: Any) -> None:
    eager = made(Block)
    expected, model = losses(eager, eager), made(Block)
    with composites.enabled("all"):
        trained = losses(model, compiled(model, backend, fullgraph=True))
    torch.testing.assert_close(trained, expected, rtol=2e-6, atol=1e-7)
    if isinstance(backend, Recorder):
        forward, backward = (set(backend.calls(n)) for n in (0, 1))
        names = {"layer_norm.v1", "rms_norm.v2", "gelu.v1", "cross_entropy_loss.v2"}
        assert forward == {f"ptxla::{name}" for name in names} | {
            "ptxla::embedding.v1",
            "ptxla::scaled_dot_product_attention.v1",
        }
        assert {f"ptxla::{name.replace('.', '_backward.')}" for name in names} < backward
        assert not any(n.target is torch.ops.aten.gelu.default for n in backend.graphs[0].nodes)


def test_an_operator_says_what_its_composite_does() -> None:
    backend, x = Recorder(), torch.linspace(-1, 1, 12).reshape(3, 4)
    with composites.enabled("gelu", "layer_norm"):
        run = compiled(lambda x: F.layer_norm(F.gelu(x, approximate="tanh"), (4,)), backend)
        torch.testing.assert_close(run(x), F.layer_norm(F.gelu(x, approximate="tanh"), (4,)))
    calls = backend.calls(0)
    assert calls["ptxla::gelu.v1"].kwargs == {"approximate": "tanh"}
    attributes = dict(calls["ptxla::layer_norm.v1"].kwargs)
    assert attributes.pop("eps") == pytest.approx(1e-5)
    assert attributes == {"normalized_shape": [4]}
    gelu = torch.ops.ptxla.gelu.v1
    text = "ptxla::gelu.v1(Tensor[] operands, *, str? approximate=None) -> Tensor[]"
    assert str(gelu._schema) == text
    torch.testing.assert_close(gelu([x], approximate="tanh"), [F.gelu(x, approximate="tanh")])
    with pytest.raises(composites.CompositesError, match=r"v1 runs only with operands .*\(5,\)"):
        gelu([torch.ones(5)], approximate="tanh")


def test_without_composites_a_graph_is_that_of_pytorch() -> None:
    backend = Recorder()
    with composites.enabled("all", "-gelu"):
        compiled(F.gelu, backend)(torch.ones(3))
    assert not backend.calls(0)
    assert [str(n.target) for n in backend.graphs[0].nodes if n.op == "call_function"] == [
        "aten.gelu.default"
    ]


def dropped(x: Tensor) -> Tensor:
    inner = lambda x: F.silu(F.dropout(x, 0.5) * x)  # noqa: E731
    result: Tensor = checkpoint(inner, x, use_reentrant=False)
    return result


def moved(x: Tensor) -> Tensor:
    return F.gelu(x.reshape(-1, 2, 4).permute(1, 2, 0)).permute(2, 0, 1) + torch.ones(4)


def cast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return F.softmax(x @ x.t(), -1)


@pytest.mark.parametrize("function", [dropped, moved, cast])
@pytest.mark.parametrize("backend", ["aot_eager", *exhaustive("inductor")])
def test_functions(backend: str, function: Callable[[Tensor], Tensor]) -> None:
    """Functions of several sizes are compiled for each size."""
    with composites.enabled("all"):
        run = compiled(function, backend)
        for size in (8, 16, 24):
            inputs = [torch.linspace(-1, 2, 8 * size).reshape(-1, 8) for _ in range(2)]
            results = []
            for call, x in zip((run, function), inputs, strict=True):
                torch.manual_seed(0)
                x.requires_grad_()
                results.append(call(x))
                (results[-1] * results[-1].detach()).float().sum().backward()
            if function is dropped and backend == "inductor":  # it draws other numbers
                x, kept = inputs[0].detach().requires_grad_(), (results[0] != 0).float() * 2
                results = [results[0], F.silu(kept * x * x)]
                (results[1] * results[1].detach()).sum().backward()
                inputs[1] = x
            torch.testing.assert_close(*results)
            assert results[0].stride() == results[1].stride()
            torch.testing.assert_close(inputs[0].grad, inputs[1].grad)


def test_mistakes() -> None:
    with pytest.raises(composites.CompositesError, match=r"no backend .tpu9.; there are: .*induc"):
        composites.wrap("tpu9")
    with pytest.raises(composites.CompositesError, match="a name or a function, not 3"):
        composites.wrap(3)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="Unexpected optimization option kernels"):
        compiled(F.gelu, "inductor", options={"kernels": "auto"})(torch.ones(2))
    assert composites.wrap("aot_eager") is composites.wrap("aot_eager")


@pytest.mark.process
def test_without_jax() -> None:
    done = run_python(
        "import sys; sys.modules['jax'] = None\n"
        "import composites\n"
        "try:\n    composites.wrap('inductor')\n"
        "except composites.MissingPackageError as error:\n    print(error)\n"
    )
    assert "composites need jax, which is not installed" in done.stdout, done.stderr


def test_decompositions_that_differ_are_operators_of_their_own() -> None:
    """A composite of the user's own may compute another thing later, under the same name."""
    backend, scale, x = Recorder(), [2.0], torch.ones(3)

    @composites.composite("acme.scaled")
    def scaled(x: Tensor) -> Tensor:
        return x * scale[0]

    runs = []
    for scale[0] in (2.0, 3.0):
        runs.append(compiled(scaled, backend))
        runs[-1](x)
    names = [n.target.name() for g in backend.graphs for n in g.nodes if is_operator(n.target)]
    assert names == ["acme::scaled.v1", "acme::scaled.v1_2"]
    first, second = (getattr(torch.ops.acme.scaled, name) for name in ("v1", "v1_2"))
    assert [op([x])[0].tolist() for op in (first, second)] == [[2.0] * 3, [3.0] * 3]


def test_operands_of_i32() -> None:
    with composites.enabled("topk"):
        values, at = compiled(lambda x: torch.topk(x, 2), "eager")(torch.IntTensor([3, 7, 5, 1]))
    assert (values.dtype, values.tolist(), at.tolist()) == (torch.int32, [7, 5], [1, 2])
