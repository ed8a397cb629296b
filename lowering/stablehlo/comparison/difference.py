"""The distance of two results, and the distance that a kernel may have from a decomposition."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from composites.element_types import BY_NAME
from composites.lazy_modules import np

from ..dtypes import element_name, is_float, significand

TOLERANCES = {"f64": 1e-12, "f32": 1e-5, "f16": 4e-3, "bf16": 2e-2}
"""The error that a kernel may have, by the least precise float among operands and results. Floats
of 8 bits and less may differ by a step of theirs."""


def default_tolerance(types: Iterable[str], own: Mapping[str, float] | None = None) -> float:
    """The tolerance for a call with these operand and result types; 0 without floats.

    Args:
        own: the tolerances that the entry of the composite sets, by element type.
    """
    elements = {element_name(type_) for type_ in types}
    return max((_tolerance(element, own or {}) for element in elements), default=0.0)


def _tolerance(element: str, own: Mapping[str, float]) -> float:
    if element in own:
        return own[element]
    if element.startswith("complex"):
        return _tolerance(element[len("complex<") : -1], own)
    if element in TOLERANCES:
        return TOLERANCES[element]
    bits = significand(element)
    return 2.0 ** (1 - bits) if bits is not None else 0.5 if is_float(element) else 0.0


def any_finite(results: Sequence[Any]) -> bool:
    """Return whether there is anything to compare: a finite number, or no numbers at all."""
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


@dataclass(frozen=True)
class Difference:
    """The difference of results from those that are expected; of several results, the worst."""

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
    """The difference of results of these types. Of complex numbers, there are no ulps."""
    absolute, ulps, nans, infinities = 0.0, 0.0, 0, 0
    correlations = []
    for one, other, type_ in zip(map(_widened, got), map(_widened, expected), types, strict=True):
        nans += int((np.isnan(one) & ~np.isnan(other)).sum())
        infinities += int((np.isinf(one) & np.isfinite(other)).sum())
        finite = np.isfinite(one) & np.isfinite(other)
        one, other = one[finite], other[finite]
        if not one.size:
            continue
        distance = np.abs(one - other)
        absolute = max(absolute, float(distance.max()))
        ulps = max(ulps, float((distance / _ulp(other, element_name(type_))).max()))
        if other.dtype.kind != "c" and np.ptp(other) > 0:
            spread = np.std(one) > 0
            correlations.append(float(np.corrcoef(one, other)[0, 1]) if spread else 0.0)
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
