"""Entries for operators and functions that take or return lists of tensors."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import pytest
import torch
import torch_xla.core.xla_model as xm
from composites_testing.modules import Calling
from composites_testing.tensors import gradient_of, values
from composites_testing.vendor_calls import umbra_composites, values_and_gradients
from torch import Tensor

import composites
from composites.errors import LoweringError
from lowering.stablehlo import BindError, bind
from lowering.stablehlo import compare as compare_kernels

FUNCTIONS = """
from collections.abc import Sequence

import torch
from torch import Tensor


def total(tensors: list[Tensor], scale: float = 1.0) -> Tensor:
    assert type(tensors) is list
    return sum(tensors) * scale


def rotate(x: Tensor, position: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    assert type(position) is tuple
    return x * position[0], x * position[1]


def bare(parts, factor):
    return [part * factor for part in parts]


def weighted(x: Tensor, more: Sequence[Tensor] | None = None) -> Tensor:
    return x * 2 if more is None else x + len(more) + sum(more)


def cat_grad(grad_output: Tensor, tensors: list[Tensor], dim: int) -> list[Tensor]:
    return list(torch.split(grad_output * 1.0, [t.shape[dim] for t in tensors], dim))


def wrong_grad(grad_output: Tensor, tensors: list[Tensor], dim: int) -> list[Tensor]:
    return [grad_output * 1.0]


def joined(tensors: list[Tensor], dim: int) -> Tensor:
    return torch.cat(tensors, dim)


def to_joined(composite, tensors, dim=0):
    return composite(list(tensors), dim)


def to_index(composite, self, indices):
    return composite(self, [i for i in indices if i is not None], [i is not None for i in indices])


def index(self: Tensor, indices: list[Tensor], present: list[bool]) -> Tensor:
    rest = iter(indices)
    return self[tuple(next(rest) if there else slice(None) for there in present)]
"""


Enable = Callable[[str], None]


numbers = partial(values, device="cpu")


def text_of(*tensors: Tensor) -> str:
    return str(xm.get_stablehlo(list(tensors)))


def compare(
    call: Callable[..., Any],
    enable: Callable[[], None],
    *shapes: Sequence[int],
    dtype: torch.dtype = torch.float32,
) -> str:
    """Compare with PyTorch on the CPU, and bit by bit with stock. Gives the graph."""
    tensors = [numbers(*shape, seed=n, dtype=dtype) for n, shape in enumerate(shapes)]
    composites.disable()
    stock = [[t.cpu() for t in part] for part in values_and_gradients(call, "xla", tensors)]
    cpu = values_and_gradients(call, "cpu", tensors)
    enable()
    ours = values_and_gradients(call, "xla", tensors)
    text = text_of(*ours[0], *ours[1])
    for mine, theirs, expected in zip(ours, stock, cpu, strict=True):
        for a, b, c in zip(mine, theirs, expected, strict=True):
            assert torch.equal(a.cpu(), b)
            torch.testing.assert_close(a.cpu(), c)
    return text


CAT = "  cat: {op: aten::cat, attributes: {dim: {from: dim, normalize: dim}}%s}\n"


def test_one_entry_for_any_length(enable: Enable) -> None:
    for count, dtype in ((1, torch.float32), (2, torch.bfloat16), (5, torch.float32)):
        shapes = [(2, n + 1, 3) for n in range(count)]
        text = compare(lambda *t: torch.cat(t, -2), lambda: enable(CAT % ""), *shapes, dtype=dtype)
        (operands,) = re.findall(r'composite "umbra.cat" (.*?) \{', text)
        assert len(operands.split(", ")) == count
        assert "dim = 1" in text
        assert "operand_segment_sizes" not in text  # the number of operands tells


def test_vectors_without_elements_do_not_count_for_dimensions(enable: Enable) -> None:
    enable(CAT % "")
    result = torch.cat([torch.empty(0, device="xla"), numbers(2, 3).to("xla")], -1)
    assert "dim = 1" in text_of(result)
    assert torch.equal(result.cpu(), numbers(2, 3))


def umbra(name: str) -> Callable[..., Any]:
    """A function of FUNCTIONS, whose module is there when it is called."""
    return lambda *arguments: getattr(import_module("umbra_ops"), name)(*arguments)


DERIVED = "backward: derive"
OF_CAT = "gradients: [tensors], attributes: {dim: dim}, decomposition:"
PAIR, TWO_PAIRS = ((2, 3), (2, 1)), ((2, 3), (4,), (2, 3), (4,))
CALLS: dict[str, tuple[str, Callable[..., Any], Sequence[Sequence[int]], str, str]] = {
    "stack": (
        "stack: {op: aten::stack, attributes: {dim: dim}}",
        lambda *t: torch.stack(t, -1), ((2, 3), (2, 3)), "stack", "dim = -1",
    ),
    "a gradient for each tensor": (
        (CAT % f", {DERIVED}").strip(),
        lambda *t: torch.cat(t, 1), PAIR, "cat cat_backward",
        "output_mask = dense<true> : tensor<2xi1>",
    ),
    "a backward of its own": (
        (CAT % ", backward: cat_grad").strip() + f"\n  cat_grad: {{{OF_CAT} 'umbra_ops:cat_grad'}}",
        lambda *t: torch.cat(t, 1), PAIR, "cat cat_grad", "",
    ),
    "two lists": (
        "add: {op: aten::_foreach_add.List, attributes: {alpha: alpha}}",
        lambda a, b, c, d: torch._foreach_add([a, b], [c, d], alpha=2), TWO_PAIRS, "add",
        "operand_segment_sizes = dense<2> : tensor<2xi64>",
    ),
    "gradients of two lists": (
        f"mul: {{op: aten::_foreach_mul.List, {DERIVED}}}",
        lambda a, b, c, d: torch._foreach_mul([a, b], [c, d]), TWO_PAIRS, "mul mul_backward",
        "output_mask = dense<true> : tensor<4xi1>",
    ),
    "a result that is a list": (
        "split: {op: aten::split_copy.Tensor, attributes: {size: split_size, dim: dim}}",
        lambda x: torch.split(x, 2), ((5, 3),), "split", "",
    ),
    "a result that is a list of one": (
        "unbind: {op: aten::unbind_copy.int, attributes: {dim: dim}}",
        lambda x: x.unbind(), ((1, 3),), "unbind", "",
    ),
    "a function": (
        "total: {function: 'umbra_ops:total', operands: [tensors], attributes: [scale],"
        f" {DERIVED}}}",
        lambda *t: umbra("total")(list(t), 0.5), ((2, 3),) * 3, "total total_backward", "",
    ),
    "a tuple, which stays one": (
        f"rotate: {{function: 'umbra_ops:rotate', operands: [x, position], {DERIVED}}}",
        lambda x, a, b: umbra("rotate")(x, (a, b)), ((2, 3), (3,), (2, 3)),
        "rotate rotate_backward", "",
    ),
    "a list without annotation says its length": (
        f"bare: {{function: 'umbra_ops:bare', operands: [parts, factor], {DERIVED}}}",
        lambda a, b, c: umbra("bare")([a, b], c), ((2, 3), (3,), (3,)), "bare bare_backward",
        "operand_segment_sizes = dense<[2, 1]> : tensor<2xi64>",
    ),
    "adapted arguments": (
        "joined: {op: aten::cat, adapt: 'umbra_ops:to_joined', attributes: [dim],"
        f" decomposition: 'umbra_ops:joined', {DERIVED}}}",
        lambda *t: torch.cat(t, 1), PAIR, "joined joined_backward", "",
    ),
}  # fmt: skip
"""Entries, calls and the shapes of their operands; the composites, and text that they have."""


@pytest.mark.parametrize("case", CALLS)
def test_calls(case: str, enable: Enable) -> None:
    entry, call, shapes, names, text = CALLS[case]
    program = compare(call, lambda: enable(f"  {entry}\n"), *shapes)
    assert sorted({*re.findall(r'composite "umbra\.([^"]+)"', program)}) == names.split()
    assert text in program


def test_only_some_tensors_of_a_list_need_a_gradient(enable: Enable) -> None:
    enable(CAT % ", backward: derive")
    a, b = numbers(2, 3).to("xla").requires_grad_(), numbers(2, 3).to("xla")
    torch.cat([a, b]).sum().backward()
    assert "output_mask = dense<[true, false]> : tensor<2xi1>" in text_of(gradient_of(a))
    assert torch.equal(gradient_of(a).cpu(), torch.ones(2, 3))


def test_a_backward_with_too_few_gradients(enable: Enable) -> None:
    enable(
        CAT % ", backward: cat_grad" + "  cat_grad:\n    gradients: [tensors]\n"
        "    decomposition: umbra_ops:wrong_grad\n    attributes: {dim: dim}\n"
    )
    a, b = (numbers(2, 3).to("xla").requires_grad_() for _ in range(2))
    with pytest.raises(LoweringError, match=r"tensors is a list of 2 tensors.* returns 1 for it"):
        torch.cat([a, b]).sum().backward()


FOREACH = "  add: {op: aten::_foreach_add.List, attributes: {alpha: alpha}%s}\n"


def test_each_tensor_of_a_list_is_written_in_place(enable: Enable) -> None:
    enable(FOREACH % "")
    targets, addends = ([numbers(2, 3, seed=n + s) for n in range(3)] for s in (0, 5))
    ours = [target.to("xla") for target in targets]
    before = [target.clone() for target in ours]
    torch._foreach_add_(ours, [addend.to("xla") for addend in addends], alpha=3)
    assert umbra_composites(*ours) == ["add"]
    torch._foreach_add_(targets, addends, alpha=3)
    for a, b, old in zip(ours, targets, before, strict=True):
        torch.testing.assert_close(a.cpu(), b)
        assert not torch.equal(old.cpu(), b)


def test_written_to_out(enable: Enable) -> None:
    enable(CAT % "")
    x, y = (numbers(2, 3, seed=n) for n in range(2))
    target = torch.empty(4, 3, device="xla")
    assert torch.cat([x.to("xla"), y.to("xla")], out=target) is target
    assert umbra_composites(target) == ["cat"]
    assert torch.equal(target.cpu(), torch.cat([x, y]))


def test_in_place_with_gradients_is_autograds_own(enable: Enable) -> None:
    def in_place(a: Tensor, b: Tensor) -> Tensor:
        made = [a * 2, b * 3]
        torch._foreach_add_(made, [b, a])
        return made[0] * made[1]

    enable_it = lambda: enable(FOREACH % ", backward: derive")  # noqa: E731
    compare(in_place, enable_it, (2, 3), (2, 3))


def test_an_absent_list_is_not_an_empty_one(enable: Enable) -> None:
    import umbra_ops  # type: ignore[import-not-found]

    enable("  weighted: {function: 'umbra_ops:weighted', operands: [x, more], backward: derive}\n")
    x = numbers(2).to("xla")
    for more, sizes in ((None, "[1, -1]"), ([], "[1, 0]"), ([x], "1")):
        result = umbra_ops.weighted(x, more)
        assert f"operand_segment_sizes = dense<{sizes}> : tensor<2xi64>" in text_of(result)
        there = None if more is None else [t.cpu() for t in more]
        torch.testing.assert_close(result.cpu(), umbra_ops.weighted(x.cpu(), there))


def test_a_list_with_something_else_takes_the_stock_lowering(enable: Enable) -> None:
    import umbra_ops

    enable("  bare: {function: 'umbra_ops:bare', operands: [parts, factor], backward: derive}\n")
    x = numbers(2).to("xla")
    assert umbra_composites(umbra_ops.bare([x, 2.0], x)[0]) == []
    (row,) = composites.stats().entries["umbra.bare"].fallbacks
    assert "no composite can depend on it" in row.reason
    assert [type(t) for t in umbra_ops.bare([1, 2], 3)] == [int, int]


@composites.composite("umbra.mean_of", attributes=("scale",))
def mean_of(tensors: list[Tensor], scale: float = 1.0) -> Tensor:
    return torch.stack(tensors).mean(0) * scale


def test_lists_of_functions_under_composite() -> None:
    a, b = (numbers(2, 3, seed=n) for n in range(2))
    leaves = [t.to("xla").requires_grad_() for t in (a, b)]
    result = mean_of(leaves, scale=2.0)
    grads = torch.autograd.grad(result.sum(), leaves)
    assert umbra_composites(result, *grads) == ["mean_of", "mean_of_backward"]
    torch.testing.assert_close(result.cpu(), a + b)
    torch.testing.assert_close(grads[0].cpu(), torch.ones(2, 3))
    assert umbra_composites(mean_of(tensors=leaves)) == ["mean_of"]
    assert torch.equal(mean_of([a, b]), torch.stack([a, b]).mean(0))


def test_absent_tensors_of_a_list_with_adapt(enable: Enable) -> None:
    enable(
        "  index:\n    op: aten::index.Tensor\n    adapt: umbra_ops:to_index\n"
        "    decomposition: umbra_ops:index\n    attributes: {present: present}\n"
    )
    x, i = numbers(2, 4).to("xla"), torch.tensor([0, 2], device="xla")
    result = torch.ops.aten.index.Tensor(x, [None, i])
    assert umbra_composites(result) == ["index"]
    assert "present = dense<[false, true]> : tensor<2xi1>" in text_of(result)
    assert torch.equal(result.cpu(), numbers(2, 4)[:, [0, 2]])


def test_in_graphs_of_torch_compile(enable: Enable) -> None:
    enable(CAT % ", backward: derive")
    x, y = (numbers(2, 3, seed=n).to("xla").requires_grad_() for n in range(2))

    @torch.compile(backend="aot_eager", fullgraph=True)
    def joined(a: Tensor, b: Tensor) -> Tensor:
        return torch.cat([mean_of([a, b]), b], 1)

    result = joined(x, y)
    grads = torch.autograd.grad(result.square().sum(), [x, y])
    assert sorted(set(umbra_composites(result, *grads))) == [
        "cat", "cat_backward", "mean_of", "mean_of_backward",
    ]  # fmt: skip
    a, b = (t.detach().cpu().requires_grad_() for t in (x, y))
    expected = torch.cat([torch.stack([a, b]).mean(0), b], 1)
    torch.testing.assert_close(result.cpu(), expected)
    theirs = torch.autograd.grad(expected.square().sum(), [a, b])
    torch.testing.assert_close([grad.cpu() for grad in grads], list(theirs))


def test_an_optimizer_over_lists(enable: Enable) -> None:
    def trained(device: str) -> list[Tensor]:
        weights = [torch.nn.Parameter(numbers(n, seed=n).to(device)) for n in (2, 3, 4)]
        optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9, foreach=True)
        for weight in weights:
            weight.grad = torch.ones_like(weight)
        for _ in range(3):
            optimizer.step()
        return [weight.detach() for weight in weights]

    stock, cpu = [w.cpu() for w in trained("xla")], trained("cpu")
    enable(FOREACH % "")
    ours = trained("xla")
    assert set(umbra_composites(*ours)) == {"add"}
    actual = [weight.cpu() for weight in ours]
    assert all(map(torch.equal, actual, stock))
    torch.testing.assert_close(actual, cpu)


def test_exports_and_kernels(enable: Enable) -> None:
    enable(FOREACH % "")
    shapes = [(2, 3), (4,), (2, 3), (4,)]
    arguments = tuple(numbers(*shape) for shape in shapes)
    program = composites.export(Calling(CALLS["two lists"][1]), arguments, ops=["umbra.add"])
    assert program.composites == {"umbra.add": 1}

    def kernel(*operands: Any, alpha: float, operand_segment_sizes: tuple[int, ...]) -> Any:
        first, second = operand_segment_sizes
        assert len(operands) == first + second
        pairs = zip(operands[:first], operands[first:], strict=True)
        return tuple(a + alpha * b for a, b in pairs)

    (call,) = compare_kernels(program.module, {"umbra.add": kernel}).calls
    assert call.problem is None
    assert call.numbers is not None
    assert call.numbers.error == 0

    def careless(*operands: Any, alpha: float) -> Any:
        return tuple(a + alpha * b for a, b in zip(operands[:2], operands[2:], strict=True))

    with pytest.raises(BindError, match="no parameter for operand_segment_sizes"):
        bind(program.module, {"umbra.add": careless})


@pytest.mark.parametrize("is_compiled", [False, True])
def test_conditions(enable: Enable, is_compiled: bool) -> None:
    import umbra_ops

    enable(
        "  total:\n    function: umbra_ops:total\n    operands: [tensors]\n"
        "    attributes: {scale: scale}\n    backward: derive\n    when:\n"
        "      dtypes: [f32, bf16]\n      rank: 2\n"
        "      where: [len(tensors) == 2, 'tensors[0].shape[0] == 2']\n"
    )

    def run(*tensors: Tensor) -> list[str]:
        torch._dynamo.reset()
        call = lambda *t: umbra_ops.total(list(t))  # noqa: E731
        total: Tensor = (torch.compile(call, backend="aot_eager") if is_compiled else call)(
            *tensors
        )
        names = umbra_composites(total)
        torch.testing.assert_close(total.cpu(), sum(t.cpu() for t in tensors))
        return names

    x, y = numbers(2, 3).to("xla"), numbers(4, 3).to("xla")
    assert run(x, x) == ["total"]
    # Every tensor of the list counts.
    for tensors in ((y, y), (x, x, x), (x[0], x[1]), (x.half(), x.half()), (x.half(), x)):
        assert run(*tensors) == []
    reasons = [row.reason for row in composites.stats().entries["umbra.total"].fallbacks]
    assert is_compiled or "takes rank 2, not 1" in reasons
    assert is_compiled or any("takes operands of" in reason for reason in reasons)
