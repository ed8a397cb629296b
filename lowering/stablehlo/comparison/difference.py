"""The distance of two results, and the distance that a kernel may have from a decomposition."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ..dtypes import element_of, is_float, significand

TOLERANCES = {"f64": 1e-12, "f32": 1e-5, "f16": 4e-3, "bf16": 2e-2}
"""The error that a kernel may have, by the least precise float among operands and results. Floats
of 8 bits and less may differ by a step of theirs."""


def default_tolerance(types: Iterable[str]) -> float:
    """The tolerance for a call with these operand and result types; 0 without floats."""
    elements = {element_of(type_) for type_ in types}
    return max((_tolerance(element) for element in elements), default=0.0)


def _tolerance(element: str) -> float:
    if element.startswith("complex"):
        element = element[len("complex<") : -1]
    if element in TOLERANCES:
        return TOLERANCES[element]
    bits = significand(element)
    return 2.0 ** (1 - bits) if bits is not None else 0.5 if is_float(element) else 0.0


def any_finite(results: Sequence[Any]) -> bool:
    """Return whether there is anything to compare: a finite number, or no numbers at all."""
    import numpy as np

    sized = [result for result in results if result.size]
    return not sized or any(np.isfinite(_widened(result)).any() for result in sized)


def error(got: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest error of several results."""
    return max(map(_error, got, expected), default=0.0)


def _error(got: Any, expected: Any) -> float:
    """The largest absolute difference, relative to the largest absolute value that is expected.

    Where the expected value is not finite, the same one is needed: otherwise the error is infinite.
    Of integers and booleans, the part of the elements that differ.
    """
    import numpy as np

    if got.dtype.kind in "iub" and expected.dtype.kind in "iub":
        return float(np.mean(got != expected)) if got.size else 0.0
    one, other = _widened(got), _widened(expected)
    finite = np.isfinite(other)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    if not (same | finite).all() or not np.isfinite(one[finite]).all():
        return math.inf
    if not finite.any():
        return 0.0
    difference = float(np.abs(one[finite] - other[finite]).max())
    scale = float(np.abs(other[finite]).max())
    return difference / scale if scale else difference


def _widened(array: Any) -> Any:
    import numpy as np

    return np.asarray(array, np.complex128 if array.dtype.kind == "c" else np.float64)
