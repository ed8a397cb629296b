"""compare: right kernels, planted mistakes, the operands that calls run on, and what is written."""

import ctypes
import math
import re
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from composites_testing.golden import read_cases
from composites_testing.passes import DATA, composite_module, load
from composites_testing.stablehlo_commands import printed

from lowering import stablehlo
from lowering.stablehlo.comparison.inputs import make_inputs


def twice(x: Any, axis: int, scale: float) -> Any:
    return x * scale


def seven(x: Any, axis: int, scale: float) -> Any:
    return x * 7


def problem(comparison: stablehlo.Comparison) -> str:
    (message,) = comparison.problems
    return message


# ---- kernels in JAX ----


def test_a_right_kernel() -> None:
    comparison = stablehlo.compare(load("block"), {"acme.twice": twice})
    (row,) = comparison.calls
    assert (row.call.name, row.call.count) == ("acme.twice", 2)
    assert (row.kernel, row.bytes) == ("twice", 2 * 4 * 8 * 4)
    assert (row.tolerance, comparison.problems) == (1e-5, ())
    numbers = row.numbers
    assert numbers is not None
    assert (numbers.error, numbers.kernel_error, numbers.decomposition_error) == (0, 0, 0)
    for seconds in (numbers.kernel_seconds, numbers.decomposition_seconds):
        assert seconds is not None
        assert 0 < seconds < 1
    machine = comparison.machine
    assert 1e8 < machine.copy_bandwidth < 1e13
    assert row.bound_seconds == row.bytes / machine.copy_bandwidth


def test_a_kernel_may_return_what_a_backward_saves() -> None:
    def saving(x: Any, axis: int, scale: float) -> Any:
        return x * scale, x.sum()

    def misplacing(x: Any, axis: int, scale: float) -> Any:
        return x.sum(), x * scale

    comparison = stablehlo.compare(load("block"), {"acme.twice": saving}, timed=False)
    assert comparison.problems == ()
    assert comparison.calls[0].kernel == "saving"
    assert "misplacing returns (tensor<f32>); it must return (" in problem(
        stablehlo.compare(load("block"), {"acme.twice": misplacing}, timed=False)
    )


WRONG: tuple[tuple[Any, str], ...] = (
    (seven, r"seven differs from the decomposition; its error is 2\.5, and 1e-05 is allowed"),
    (lambda x, axis, scale: x / 0 * 0, "its error is inf"),
    (lambda x, axis, scale: x.undefined, "cannot be lowered for .*AttributeError"),
)


def test_a_wrong_kernel_is_a_problem() -> None:
    for kernel, message in WRONG:
        comparison = stablehlo.compare(load("block"), {"acme.twice": kernel}, timed=False)
        assert problem(comparison).startswith("acme.twice")
        assert re.search(message, problem(comparison))
        assert comparison.calls[0].problem == problem(comparison)


def test_composites_inside_the_decomposition_are_run() -> None:
    comparison = stablehlo.compare(load("block"), {"ptxla.outer@1": lambda x, y: x - jnp.tanh(y)})
    assert comparison.problems == ()


def test_mistakes() -> None:
    with pytest.raises(stablehlo.StableHLOError, match="both a function and a target"):
        stablehlo.compare(load("block"), {"acme.twice": twice}, targets={"acme.twice": "k"})
    for tolerance in (-1.0, math.nan):
        message = "^the tolerance must be a number from 0, such as 1e-5"
        with pytest.raises(stablehlo.StableHLOError, match=message):
            stablehlo.compare(load("block"), {"acme.twice": twice}, tolerance=tolerance)


@pytest.mark.slow
def test_the_tolerance_depends_on_the_type_and_can_be_given() -> None:
    def module(type_: str) -> stablehlo.Module:
        tensor = f"tensor<64x{type_}>"
        return composite_module("acme.exp", tensor, f"%r = stablehlo.exponential %x : {tensor}")

    def nearly(x: Any) -> Any:
        return (jnp.exp(x.astype("float32")) * 1.001).astype(x.dtype)

    tolerances = {"f64": 1e-12, "f32": 1e-5, "f16": 4e-3, "bf16": 2e-2, "f8E4M3FN": 0.125}
    for type_, tolerance in tolerances.items():
        (row,) = stablehlo.compare(module(type_), {"acme.exp": nearly}, timed=False).calls
        assert row.tolerance == tolerance
        assert (row.problem is None) == (tolerance > 1e-3), row.problem
    assert stablehlo.compare(module("f32"), {"acme.exp": nearly}, tolerance=0.002).problems == ()
    exact = stablehlo.compare(module("bf16"), {"acme.exp": lambda x: jnp.exp(x)}, tolerance=0.0)
    numbers = exact.calls[0].numbers
    assert numbers is not None
    assert numbers.decomposition_error is not None
    assert 1e-5 < numbers.decomposition_error < 1e-2  # of bf16, against f64


def test_integer_results_have_to_be_equal() -> None:
    module = composite_module("acme.id", "tensor<4xi32>")
    assert stablehlo.compare(module, {"acme.id": lambda x: x + 0}).problems == ()
    wrong = stablehlo.compare(module, {"acme.id": lambda x: x.at[0].add(1)})
    assert "its error is 0.25, and 0 is allowed" in problem(wrong)


def test_why_there_is_no_f64() -> None:
    body = """
          %m = stablehlo.constant dense<2147483647> : tensor<4xi32>
          %0 = stablehlo.bitcast_convert %x : (tensor<4xf32>) -> tensor<4xi32>
          %1 = stablehlo.and %0, %m : tensor<4xi32>
          %r = stablehlo.bitcast_convert %1 : (tensor<4xi32>) -> tensor<4xf32>"""
    module = composite_module("acme.abs", "tensor<4xf32>", body)
    comparison = stablehlo.compare(module, {"acme.abs": lambda x: jnp.abs(x)})
    numbers = comparison.calls[0].numbers
    assert comparison.problems == ()
    assert numbers is not None
    assert (numbers.error, numbers.kernel_error, numbers.decomposition_error) == (0, None, None)
    assert numbers.why_not_f64 == "stablehlo.bitcast_convert: it reads the bits of floats"
    assert "no f64" in printed(stablehlo.comparison_table(comparison), 400)


# ---- kernels in C++ ----


NO_ATTRIBUTE = "twice_no_attribute does not read"
# The headers of jax 0.7 refuse it themselves.
IN_CPP: tuple[tuple[str, list[str], str | None], ...] = (
    ("twice_right", [], None),
    ("twice_by_name", [], None),
    ("twice_seven", [], r"twice_seven differs from the decomposition; its error is 2\.5"),
    ("twice_failing", [], "INVALID_ARGUMENT: planted"),
    ("twice_wrong_type", [], "F64"),
    ("twice_one_attribute", [], "Wrong number of attributes"),
    ("twice_one_attribute", ["axis"], None),
    ("twice_no_attribute", [], f"{NO_ATTRIBUTE} axis, scale, which|expected 0 but got 2"),
    ("twice_no_attribute", ["axis"], f"{NO_ATTRIBUTE} scale, which|expected 0 but got 1"),
    ("twice_no_attribute", ["axis", "scale"], None),
)
"""Kernels, what they ignore, and their problem."""


@pytest.mark.slow
def test_kernels_in_cpp(library: Path) -> None:
    for target, names, message in IN_CPP:
        stablehlo.register_targets([target], [library])
        ignored = {"acme.twice": names}
        targets = {"acme.twice": target}
        comparison = stablehlo.compare(load("block"), targets=targets, ignored=ignored, timed=False)
        if message is None:
            assert comparison.problems == (), target
        else:
            assert re.search(message, problem(comparison))
            assert problem(comparison).startswith("acme.twice(tensor<4x8xf32>)")


@pytest.mark.slow
def test_what_cannot_be_registered(library: Path, tmp_path: Path) -> None:
    with pytest.raises(stablehlo.RunError, match="no library has the symbol nobody_has_this"):
        stablehlo.register_targets(["nobody_has_this"], [library])
    with pytest.raises(stablehlo.RunError, match="cannot be loaded"):
        stablehlo.register_targets(["twice_right"], [tmp_path / "missing.so"])
    assert ctypes.CDLL(str(library)).twice_right


# ---- operands ----


def operands(types: str, results: str, body: str) -> Any:
    """The operands that are made for a decomposition."""
    return made_for(stablehlo.Module.parse(f"func.func @main({types}) -> {results} {{ {body} }}"))


def made_for(module: stablehlo.Module) -> Any:
    executable = stablehlo.compile_module(module)
    made = make_inputs(module, executable)
    again = make_inputs(module, executable)
    for array, expected in zip(made.arrays, again.arrays, strict=True):
        np.testing.assert_array_equal(array, expected)
    return made


INTEGERS = read_cases(DATA / "integers.txt")


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_in_range_and_reach_its_ends(name: str) -> None:
    text, expected = INTEGERS[name].values()
    index, *ends = map(int, expected.split())
    array = made_for(stablehlo.Module.parse(text)).arrays[index]
    assert [array.min(), array.max()] == ends


def test_starts_of_slices_are_in_range() -> None:
    body = """
        %0 = stablehlo.dynamic_slice %x, %i, %j, sizes = [8, 2]
          : (tensor<9x2xf32>, tensor<i32>, tensor<i32>) -> tensor<8x2xf32>
        return %0 : tensor<8x2xf32>"""
    types = "%x: tensor<9x2xf32>, %i: tensor<i32>, %j: tensor<i32>"
    _, start, other = operands(types, "tensor<8x2xf32>", body).arrays
    assert start in (0, 1)
    assert other == 0


def test_masks_leave_something_in_each_row() -> None:
    made = operands("%m: tensor<50x2xi1>", "tensor<50x2xi1>", "return %m : tensor<50x2xi1>")
    assert made.arrays[0][:, 0].all()
    assert 0 < made.arrays[0][:, 1].mean() < 1


def test_operands_are_positive_where_the_results_need_it() -> None:
    body = """
      %0 = stablehlo.sqrt %v : tensor<9xf32>
      %1 = stablehlo.divide %x, %0 : tensor<9xf32>
      return %1 : tensor<9xf32>"""
    made = operands("%x: tensor<9xf32>, %v: tensor<9xf32>", "tensor<9xf32>", body)
    assert made.source == "positive operand 1"
    assert made.arrays[0].min() < 0 < made.arrays[1].min()
    body = """
      %0 = stablehlo.log %x : tensor<9xf32>
      %1 = stablehlo.log %v : tensor<9xf32>
      %2 = stablehlo.add %0, %1 : tensor<9xf32>
      return %2 : tensor<9xf32>"""
    made = operands("%x: tensor<9xf32>, %v: tensor<9xf32>", "tensor<9xf32>", body)
    assert made.source == "positive"


def test_results_that_are_never_finite_are_no_comparison() -> None:
    body = "%r = stablehlo.constant dense<0x7FC00000> : tensor<4xf32>"
    module = composite_module("acme.nan", "tensor<4xf32>", body)
    comparison = stablehlo.compare(module, {"acme.nan": lambda x: x * np.float32("nan")})
    assert "gives no finite number for normal operands" in problem(comparison)


def test_random_operands_of_a_backward_need_not_belong_together() -> None:
    """A kernel takes the saved square where the decomposition computes it again."""
    module = load("square_backward")
    kernels = {"acme.square_backward": lambda x, square: square}
    message = problem(stablehlo.compare(module, kernels))
    assert message.endswith("all operands are computed: --inputs FILE.npz, or inputs=)")
    x = np.arange(4, dtype=np.float32)
    assert stablehlo.compare(module, kernels, inputs=[x]).problems == ()
    sevenfold = {"acme.square_backward": lambda x, square: x * 7}
    assert problem(stablehlo.compare(module, sevenfold, inputs=[x])).endswith("is allowed")


def test_real_inputs_reach_the_calls() -> None:
    def right_for_ones(x: Any, axis: int, scale: float) -> Any:
        return jnp.ones_like(x) * scale

    ones, eye = np.ones((4, 8), np.float32), np.eye(8, dtype=np.float32)
    module = load("block")
    assert stablehlo.run(module, ones, eye)[0].shape == (4, 8)
    comparison = stablehlo.compare(module, {"acme.twice": right_for_ones}, inputs=[ones, eye])
    assert comparison.problems == ()
    assert comparison.calls[0].numbers is not None
    assert comparison.calls[0].numbers.inputs == "given"
    assert "differs" in problem(stablehlo.compare(module, {"acme.twice": right_for_ones}))
    inner = stablehlo.compare(module, {"acme.tanh": lambda x: jnp.tanh(x)}, inputs=[ones, eye])
    assert inner.calls[0].numbers is not None
    assert inner.calls[0].numbers.inputs == "normal"  # inside a decomposition


def test_dynamic_shapes_are_a_problem() -> None:
    module = composite_module("acme.f", "tensor<?xf32>")
    assert "only calls with static shapes" in problem(
        stablehlo.compare(module, {"acme.f": lambda x: x})
    )


# ---- what is written ----


def test_the_table_has_the_comparison() -> None:
    """The table has a right kernel, a wrong one, a refused one, and a name that is escaped."""
    kernels: dict[str, Any] = {
        "acme.twice": seven,
        "acme.tanh": lambda x: jnp.tanh(x),
        "ptxla.outer": lambda x: x,
    }
    mixed = stablehlo.compare(load("block"), kernels)
    assert sorted(row.numbers is None for row in mixed.calls) == [False, False, True]
    # One wrong kernel does not hide the others.
    problems = {row.call.name: row.problem is not None for row in mixed.calls}
    assert problems == {"acme.twice": True, "acme.tanh": False, "ptxla.outer": True}
    text = printed(stablehlo.comparison_table(mixed), 400)
    for name in ("acme.twice", "acme.tanh", "ptxla.outer v1", "2.5e+00", "GB/s"):
        assert name in text
