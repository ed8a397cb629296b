"""The difference of two results, and the accepted error of a kernel."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from composites.element_types import BY_NAME
from composites.lazy_modules import np

from ..dtypes import element_name, is_float, significand

TOLERANCES = {"f64": 1e-12, "f32": 1e-5, "f16": 4e-3, "bf16": 2e-2}
"""The accepted error of a kernel, by the least precise float among operands and results. Floats of
8 bits and less may differ by one step of their type."""


def default_tolerance(types: Iterable[str], special: Mapping[str, float] | None = None) -> float:
    """The tolerance for a call by the types of its operands and results; 0 without floats.

    Args:
        special: the tolerances that the entry of the composite sets, by element type.
    """
    elements = {element_name(type_) for type_ in types}
    return max((_tolerance(element, special or {}) for element in elements), default=0.0)


def _tolerance(element: str, special: Mapping[str, float]) -> float:
    if element in special:
        return special[element]
    if element.startswith("complex"):
        return _tolerance(element[len("complex<") : -1], special)
    if element in TOLERANCES:
        return TOLERANCES[element]
    bits = significand(element)
    return 2.0 ** (1 - bits) if bits is not None else 0.5 if is_float(element) else 0.0


def any_finite(results: Sequence[Any]) -> bool:
    """Return whether results can be compared: they have a finite number, or no numbers at all."""
    sized = [result for result in results if result.size]
    return not sized or any(np.isfinite(_widened(result)).any() for result in sized)


def error(got: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest error of several results."""
    return max(map(_error, got, expected), default=0.0)


def _error(got: Any, expected: Any) -> float:
    """The largest absolute difference, relative to the largest absolute value that is expected.

    Where the expected value is not finite, the result must be the same value: otherwise the error
    is infinite. For integers and booleans, the fraction of the elements that differ.
    """
    if got.dtype.kind in "iub" and expected.dtype.kind in "iub":
        return float(np.mean(got != expected)) if got.size else 0.0
    actual, right = _widened(got), _widened(expected)
    finite = np.isfinite(right)
    same = (actual == right) | (np.isnan(actual) & np.isnan(right))
    if not (same | finite).all() or not np.isfinite(actual[finite]).all():
        return math.inf
    if not finite.any():
        return 0.0
    difference = float(np.abs(actual[finite] - right[finite]).max())
    scale = float(np.abs(right[finite]).max())
    return difference / scale if scale else difference


@dataclass(frozen=True)
class Difference:
    """The difference of results from the expected results; the worst one of several results."""

    error: float
    """The largest difference, relative to the largest expected value; see `error`."""
    absolute: float
    """The largest difference."""
    ulps: float
    """The largest difference in units in the last place of the expected number."""
    pcc: float | None
    """Pearson's correlation coefficient; None if no expected result has two values."""
    nans: int
    """NaN where a number is expected."""
    infinities: int
    """Infinities where a finite number is expected."""


def difference(got: Sequence[Any], expected: Sequence[Any], types: Sequence[str]) -> Difference:
    """The difference of results of the given types. Complex numbers have no ulps."""
    absolute, ulps, nans, infinities = 0.0, 0.0, 0, 0
    correlations = []
    pairs = zip(map(_widened, got), map(_widened, expected), types, strict=True)
    for actual, right, type_ in pairs:
        nans += int((np.isnan(actual) & ~np.isnan(right)).sum())
        infinities += int((np.isinf(actual) & np.isfinite(right)).sum())
        finite = np.isfinite(actual) & np.isfinite(right)
        actual, right = actual[finite], right[finite]
        if not actual.size:
            continue
        distance = np.abs(actual - right)
        absolute = max(absolute, float(distance.max()))
        ulps = max(ulps, float((distance / _ulp(right, element_name(type_))).max()))
        if right.dtype.kind != "c" and np.ptp(right) > 0:
            spread = np.std(actual) > 0
            correlations.append(float(np.corrcoef(actual, right)[0, 1]) if spread else 0.0)
    worst = min(correlations, default=None)
    return Difference(error(got, expected), absolute, ulps, worst, nans, infinities)


def _ulp(values: Any, element: str) -> Any:
    """The unit in the last place of each value: 1 for integers, infinite for complex numbers."""
    if element.startswith("complex"):
        return np.inf
    format_ = BY_NAME[element].format
    if format_ is None:
        return 1.0
    exponents = np.frexp(values)[1] - format_.significand
    return np.ldexp(1.0, np.maximum(exponents, format_.smallest))


def _widened(array: Any) -> Any:
    return np.asarray(array, np.complex128 if array.dtype.kind == "c" else np.float64)
