"""Control flow in programs: PyTorch's numbers, and composites in the regions of StableHLO."""

import inspect
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.map import map as mapped

import composites
from composites.errors import CompositesWarning, ExportError
from lowering.export.program import Program
from lowering.stablehlo import RefusedOperationError

WEIGHT = torch.linspace(-1, 1, 16).reshape(4, 4)


class InPython:
    """The operators as PyTorch's documentation explains them."""

    @staticmethod
    def cond(pred: Any, true: Any, false: Any, operands: Any = ()) -> Any:
        return true(*operands) if pred else false(*operands)

    @staticmethod
    def while_loop(test: Any, step: Any, carried: Any) -> Any:
        while test(*carried):
            carried = step(*carried)
        return carried

    @staticmethod
    def scan(step: Any, carry: Any, xs: torch.Tensor, reverse: bool = False) -> Any:
        ys = []
        for row in xs.flip(0) if reverse else xs:
            carry, y = step(carry, row)
            ys.append(y)
        return carry, torch.stack(ys[::-1] if reverse else ys)

    @staticmethod
    def map(function: Any, xs: torch.Tensor, *further: Any) -> Any:
        return torch.stack([function(row, *further) for row in xs])


class InPyTorch:
    """PyTorch's operators."""

    cond = staticmethod(torch.cond)
    while_loop = staticmethod(while_loop)
    scan = staticmethod(scan)
    map = staticmethod(mapped)


class Layered(torch.nn.Module):
    """A module with a parameter, which computes a function of an argument with operators."""

    def __init__(self, function: Callable[..., Any], operators: Any = InPyTorch) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(WEIGHT.clone())
        self.function, self.operators = function, operators

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, self.weight, self.operators)


def run(program: Program, module: torch.nn.Module, x: torch.Tensor) -> dict[str, Any]:
    return dict(program.run({**program.module_weights(module), "arg:0": x.numpy()}))


def branch(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    return ops.cond(x.sum() > 0, lambda x: F.gelu(x @ weight), lambda x: x - 1, (x,))


def branch_of_closures(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    y = (x * 2)[1:]
    y.add_(1)

    def true() -> dict[str, torch.Tensor]:
        z = torch.zeros_like(y)
        z[0] = 3
        return {"a": y @ weight + z, "b": weight}

    results = ops.cond(x.sum() > 0, true, lambda: {"a": y.sin(), "b": weight * 2})
    return results["a"].sum() + results["b"] * y.mean()


def nested(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    def outer(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return ops.cond(y[0, 0] > 0.5, lambda x: F.gelu(x * weight + y), lambda x: x * y, (x,))

    return ops.cond(x.sum() > 0, outer, lambda x: x @ weight, (x,))


def loop(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    count, y = ops.while_loop(
        lambda n, y: (n < 5) & (y.norm() < 40),
        lambda n, y: (n + 1, F.gelu(y @ weight) + y),
        (torch.zeros((), dtype=torch.int64), x),
    )
    return count, y


def recurrence(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    def step(carry: Any, row: torch.Tensor) -> Any:
        h, count = carry
        h = torch.tanh(h @ weight + row) * 1.1
        return (h, count + 1), torch.compiler.nested_compile_region(lambda h: F.gelu(h))(h) * count

    carry = (x.new_zeros(4), torch.ones((), dtype=torch.int64))
    (h, count), ys = ops.scan(step, carry, x, reverse=True)
    return ys.sum(1) * h + count


def mapped_rows(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    return ops.map(lambda row, y: F.gelu(row * weight) + y, x, x)


def branch_in_scan(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    def step(h: torch.Tensor, row: torch.Tensor) -> Any:
        h = ops.cond(row[0] > 0, lambda h: torch.tanh(h @ weight), lambda h: F.gelu(h + row), (h,))
        return h, h * row

    h, ys = ops.scan(step, x[0] * 1.5, x)
    return h + ys


SMOOTH = [branch, branch_of_closures, nested, recurrence, mapped_rows, branch_in_scan]
POSITIVE = torch.linspace(-1, 2, 16).reshape(4, 4).sin()
INPUTS = (POSITIVE, -POSITIVE)


@pytest.mark.parametrize("function", [*SMOOTH, loop])
def test_numbers_of_pytorch(function: Callable[..., Any]) -> None:
    module = Layered(function)
    program = composites.export(module, (POSITIVE,))
    for x in INPUTS:
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(Layered(function, InPython)(x))
        results = run(program, module, x)
        for number, tensor in enumerate(expected):
            result = results[f"out:{number}"]
            np.testing.assert_allclose(result, tensor.numpy(), rtol=1e-5, atol=1e-5)
            assert str(result.dtype) == str(tensor.numpy().dtype)


class Loss(torch.nn.Module):
    """A weighted sum of the results of a module, and of gradients of its own."""

    def __init__(self, module: torch.nn.Module, twice: bool = False) -> None:
        super().__init__()
        self.module, self.twice = module, twice

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.twice:
            x = x.detach().requires_grad_()
        y = self.module(x)
        loss = (y * torch.linspace(0.5, 2, y.numel(), device=y.device).reshape(y.shape)).sum()
        if self.twice:
            (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
            loss = loss + gradient.sin().sum()
        return loss


class Squared(torch.autograd.Function):
    """x·w², with a backward in Python."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        return x * w * w

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, w = ctx.saved_tensors
        return grad * w * w, grad * 2 * x * w


@composites.composite("acme.scaled_in_a_branch")
def scaled(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x.sin() * weight


def functions_of_autograd(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    """Functions read a parameter that is not an operand of the branch."""
    return ops.cond(
        x.sum() > 0, lambda x: Squared.apply(x, weight), lambda x: scaled(x, weight) * 1, (x,)
    )


@pytest.mark.parametrize(
    ("function", "twice"),
    [
        *((function, False) for function in (*SMOOTH, functions_of_autograd)),
        *((function, True) for function in (nested, recurrence, branch_in_scan)),
    ],
)
def test_gradients_of_pytorch(function: Callable[..., Any], twice: bool) -> None:
    module = Loss(Layered(function), twice)
    program = composites.export(module, (POSITIVE,), train=True)
    reference = Loss(Layered(function, InPython), twice)
    (weight,) = reference.parameters()
    for x in INPUTS:
        loss = reference(x)
        # A branch that is not taken has no gradient in eager PyTorch, and zeros in a program.
        (gradient,) = torch.autograd.grad(loss + 0 * weight.sum(), [weight])
        expected = {"loss": loss.detach(), "grad:module.weight": gradient}
        results = run(program, module, x)
        assert results.keys() == expected.keys()
        for name, tensor in expected.items():
            np.testing.assert_allclose(results[name], tensor.numpy(), rtol=2e-5, atol=2e-5)


def inside(program: Program, operation: str) -> set[str]:
    """The composites in the regions of an operation."""
    _, *parts = program.mlir.partition("func.func private")[0].split(f"stablehlo.{operation}")
    return set(re.findall(r'stablehlo\.composite "([^"]+)"', "".join(parts)))


def test_composites_are_in_the_regions() -> None:
    names = {
        "case": inside(composites.export(Layered(nested), (POSITIVE,)), "case"),
        "while": inside(composites.export(Layered(loop), (POSITIVE,)), "while"),
    }
    assert names == {"case": {"ptxla.gelu"}, "while": {"ptxla.gelu"}}
    training = composites.export(Loss(Layered(recurrence)), (POSITIVE,), train=True)
    assert "ptxla.gelu_backward" in inside(training, "while")


def test_a_number_chooses_the_branch() -> None:
    def chosen(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
        return ops.cond(x.shape[0] > 2, lambda x: F.gelu(x), lambda x: x[0], (x,))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that it takes one branch
        program = composites.export(Layered(chosen), (POSITIVE,))
    assert program.composites
    assert "case" not in program.mlir


def test_a_graph_of_torch_export() -> None:
    module = Layered(branch)
    program = composites.export(torch.export.export(module, (POSITIVE,)), (POSITIVE,))
    assert inside(program, "case") == {"ptxla.gelu"}
    for x in INPUTS:
        expected = Layered(branch, InPython)(x).detach().numpy()
        np.testing.assert_allclose(run(program, module, x)["out:0"], expected, atol=1e-5)


def test_in_inference_mode_and_under_autocast() -> None:
    def called(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
        with torch.inference_mode(), torch.autocast(x.device.type, torch.bfloat16):
            return ops.cond(x.sum() > 0, lambda x: x @ weight, lambda x: x.bfloat16() - 1, (x,))

    program = composites.export(Layered(called), (POSITIVE,))
    assert "bf16" in program.mlir.partition("stablehlo.case")[2]
    for x in INPUTS:
        expected = Layered(called, InPython)(x).float().numpy()
        result = run(program, Layered(called), x)["out:0"].astype(np.float32)
        np.testing.assert_allclose(result, expected, atol=0.02)


def in_branch(true: Callable[..., Any], false: Callable[..., Any] = torch.sin) -> Any:
    return lambda x, weight, ops: ops.cond(x.sum() > 0, true, false, (x,))


def in_loop(step: Callable[..., Any], count: Any) -> Any:
    def looped(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
        return ops.while_loop(lambda n, x: n < 3, step, (count, x * weight))[1].sum()

    return looped


ERRORS: dict[str, tuple[Callable[..., Any], str]] = {
    "shapes": (in_branch(lambda x: x[0]), r"float32 \[4\], and float32 \[4, 4\]"),
    "dtypes": (in_branch(lambda x: x.double()), r"float64 \[4, 4\], and float32 \[4, 4\]"),
    "structure": (in_branch(lambda x: (x,), lambda x: [x]), "nest their results differently"),
    "number": (in_branch(lambda x: 3), "returns 3; return tensors only"),
    "write": (in_branch(lambda x: x.add_(1)), "writes to a tensor that it did not make"),
    "write in inference mode": (
        torch.inference_mode()(in_branch(lambda x: x.add_(1), lambda x: x * 2)),
        "writes to a tensor that it did not make",
    ),
    "write to a view": (in_branch(lambda x: x[0].add_(1) + x), "writes to a tensor"),
    "random numbers": (in_branch(torch.rand_like), "draws random numbers; draw them before"),
    "value": (in_branch(lambda x: x if x.sum() > 1 else -x), "reads the value of a tensor"),
    "carried shape": (
        in_loop(lambda n, x: (n + 1, x[0]), torch.zeros(())),
        r"the results of body_fn have different types: .*, and float32 \[\], float32 \[4\]",
    ),
    "carried number": (in_loop(lambda n, x: (n + 1, x), 0), r"carry torch.tensor\(0\)"),
    "gradient": (in_loop(lambda n, x: (n + 1, x * 2), torch.zeros(())), "has no gradient"),
}


def test_what_a_target_refuses_in_a_region_has_its_line() -> None:
    function = in_branch(lambda x: x.double().sin().float())
    with pytest.raises(RefusedOperationError, match=r"stablehlo.sine of f64.* aten::sin") as caught:
        composites.export(Layered(function), (POSITIVE,), target="litert")
    _, line = inspect.getsourcelines(test_what_a_target_refuses_in_a_region_has_its_line)
    assert f", at {__file__}:{line + 1};" in str(caught.value)


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_says_the_line(name: str) -> None:
    function, text = ERRORS[name]
    with pytest.raises(ExportError, match=text) as caught:
        composites.export(Layered(function), (POSITIVE,), train=name == "gradient")
    assert str(caught.value).startswith(f"{__file__}:")


def decay(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    def step(h: torch.Tensor, row: torch.Tensor) -> Any:
        return h * weight[0, 0] + F.gelu(row @ weight), h.clone()

    h, ys = ops.scan(step, x[0] * 1.5, x, reverse=True)
    return h + ys


def rows(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    return ops.map(lambda row, weight: F.gelu(row @ weight), x, weight)


@pytest.mark.parametrize("function", [branch, nested, decay, rows])
@pytest.mark.parametrize("train", [False, True])
def test_live_programs(function: Callable[..., Any], train: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(Layered(function), backend="composites", fullgraph=True)
    for x in INPUTS:
        results = []
        for module in (Layered(function, InPython), compiled):
            operand = x.clone().requires_grad_(train)
            y = module(operand)
            pulled = torch.autograd.grad(y.sum(), operand) if train else ()
            results.append([y, *pulled])
        torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)


def test_a_live_loop() -> None:
    """A loop has no gradient in a program: with a gradient, it runs in eager PyTorch."""
    torch._dynamo.reset()
    module, reference = Layered(loop), Layered(loop, InPython)
    with torch.no_grad():
        results = torch.compile(module, backend="composites", fullgraph=True)(POSITIVE)
        torch.testing.assert_close(results, reference(POSITIVE))
    message = r"does not trace while_loop in it \(.*\); while_loop has no gradient: use scan, or"
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=message):
        torch.compile(module, backend="composites", fullgraph=True)(POSITIVE)
    with pytest.warns(CompositesWarning, match=f"runs in eager PyTorch: PyTorch {message}"):
        _, y = torch.compile(module, backend="composites")(POSITIVE.clone().requires_grad_())
    torch.testing.assert_close(y, reference(POSITIVE)[1])


def test_a_live_graph_that_runs_in_eager_pytorch_keeps_its_device() -> None:
    """Tensors keep their device in the graphs that operators take, too."""

    def drawn(x: torch.Tensor) -> torch.Tensor:
        moved = torch.rand_like(x) * 0 + torch.arange(4.0) + torch.tensor([1.0, 2.0, 3.0, 4.0])
        return moved * torch.zeros(4).cos()

    def call(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, drawn, torch.sin, (x,))

    torch._dynamo.reset()
    with pytest.warns(CompositesWarning, match="draws random numbers"):
        result = torch.compile(call, backend="composites")(POSITIVE)
    assert result.tolist() == [[1, 3, 5, 7]] * 4
