"""Passes on the programs of `passes/`, a file for each pass.

Each case (`composites_testing.cases`) has lines that say what is checked:

| line | meaning |
|---|---|
| `// with {"only": ["outer"]}` | arguments of the pass |
| `// stays` | the pass changes nothing |
| `// refused message` | the pass raises an error with this message |
| `// has text`, `// lacks text`, `// 2 times text` | what the text afterwards has |
| `// within 1e-6` | results for normal numbers, relative to the greatest one of each result |
| `// not run` | results are not compared |

Without the last two, results have the same bits for numbers of which many are equal, extreme, or
not finite; a NaN may be any other one, and a subnormal number zero, as bf16 instructions make it.
A pass leaves its operand as it was, and has nothing more to change when it runs again.
"""

import ast
import math
import re
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from composites_testing.cases import Case, cases
from composites_testing.passes import changed, same_numbers

from lowering import stablehlo as passes
from lowering.stablehlo import Module, StableHLOError, compile_module
from lowering.stablehlo.dtypes import static_tensor

FILES = sorted((Path(__file__).parent / "passes").glob("*.mlir"))
CHECKS = ("stays", "refused", "has", "lacks", "times")
NUMBERS = [0, -0.0, 1, -1.5, 0.3, 7, 7, 1e-30, 3e38, -3e38, np.inf, -np.inf, np.nan, -np.nan]
INTEGERS = [0, 1, 1, 2, 7, 8, 2**32, 2**32 + 1, -1, -3]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_cases(file: Path) -> None:
    for case in cases(file.read_text(encoding="utf-8")):
        try:
            check(getattr(passes, file.stem), case)
        except Exception as error:
            error.add_note(f"{file.name}: {case.title}")
            raise


def check(a_pass: Any, case: Case) -> None:
    assert any(map(case.has, CHECKS)), "nothing is checked"
    module = case.module()
    options = {k: v for line in case.all("with") for k, v in ast.literal_eval(line).items()}
    for message in case.all("refused"):
        with pytest.raises(StableHLOError, match=re.escape(message)):
            a_pass(module, **options)
        return
    after = changed(module, lambda original: a_pass(original, **options))
    if case.has("stays"):
        assert after.text == module.text
        return
    lacking = [part for part in case.all("has") if part not in after.text]
    left = [part for part in case.all("lacks") if part in after.text]
    counts = [re.fullmatch(r"(\d+) (.*)", line) for line in case.all("times")]
    wrong = [c[2] for c in counts if c and after.text.count(c[2]) != int(c[1])]
    assert not lacking + left + wrong, f"{lacking + left + wrong} of\n{after.text}"
    for tolerance in case.all("within"):
        same_numbers(module, after, tolerance=float(tolerance))
    if not case.has("within") and not case.has("not"):
        same_bits(module, after)


def same_bits(module: Module, after: Module) -> None:
    before = compile_module(module)
    values = hard_numbers(before.inputs)
    for expected, actual in zip(before(*values), compile_module(after)(*values), strict=True):
        assert actual.dtype == expected.dtype
        with np.errstate(invalid="ignore"):
            nan = expected != expected
            np.testing.assert_array_equal(actual != actual, nan)
        pair = [_comparable(array) for array in (actual, expected)]
        assert pair[0] == pair[1], f"{actual} instead of {expected}"


def _comparable(array: np.ndarray) -> bytes:
    """The bytes of an array, where NaN is zero and a subnormal number is zero with its sign."""
    if not jnp.issubdtype(array.dtype, np.floating):
        return array.tobytes()
    with np.errstate(invalid="ignore"):
        array = np.where(array != array, np.zeros_like(array), array)
        subnormal = np.abs(array) < jnp.finfo(array.dtype).tiny
        return np.where(subnormal, np.copysign(np.zeros_like(array), array), array).tobytes()


def hard_numbers(types: tuple[str, ...]) -> list[np.ndarray]:
    """Arrays of these types, the same on every call. Of 16 bits, 65,536 are all that there are."""
    random = np.random.default_rng(0)
    arrays = []
    for tensor in map(static_tensor, types):
        assert tensor is not None
        shape, dtype = tensor
        if dtype == np.bool_:
            arrays.append(random.random(shape) < 0.5)
        elif dtype.itemsize == 2 and math.prod(shape) == 2**16:
            arrays.append(np.arange(2**16, dtype=np.uint16).view(dtype).reshape(shape))
        else:
            arrays.append(random.choice(_hard_numbers(dtype), shape))
    return arrays


def _hard_numbers(dtype: np.dtype[Any]) -> np.ndarray:
    if not np.issubdtype(dtype, np.integer):
        with np.errstate(over="ignore"):
            return np.array(NUMBERS, np.float64).astype(dtype)
    ends = np.iinfo(dtype)
    limits = [ends.min, ends.min + 1, ends.max // 2 + 1, ends.max - 1, ends.max]
    return np.array([n for n in INTEGERS + limits if ends.min <= n <= ends.max], dtype)
