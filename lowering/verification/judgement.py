"""Findings from the results of runs. This module runs nothing itself."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import torch

from composites.element_types import NAME_OF_PYTORCH
from lowering.verification.bits import same_bits
from lowering.verification.results import Check, Finding, GreatestErrors
from lowering.verification.runs import Outcome, Raised, Values, equal_values
from lowering.verification.tolerances import accepted_error


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of the runs of one sample."""

    sample: str
    cpu: Values
    wide: Values | None
    """The values on the CPU in f64; None if that is the same computation, or fails."""
    stock: Outcome
    ours: Outcome
    again: Outcome | None = None
    """The second call with the entry on."""
    is_random: bool = False
    """True if the numbers depend on the random generator; then only stock's can be compared."""
    is_native: bool = False
    """True if the decomposition is the stock lowering, so that results must be bitwise equal."""
    limit: float | None = None
    """The largest accepted error of floating-point numbers, if it is not the default of their
    dtype."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The findings about one sample."""

    findings: tuple[Finding, ...] = ()
    numbers: GreatestErrors = field(default_factory=GreatestErrors)
    same_bits: bool | None = None


def judge(outcomes: Outcomes) -> Judged:
    """Compare the runs of one sample."""
    ours, stock = outcomes.ours, outcomes.stock
    if isinstance(ours, Raised):
        if isinstance(stock, Raised) and stock.type == ours.type:
            return Judged()  # stock refuses the call, and so does the entry
        return Judged((Finding(Check.CALL, str(ours), outcomes.sample),))
    expected = stock if isinstance(stock, Values) else None
    bits = None if expected is None else equal_values(ours, expected)
    findings = list(_findings(outcomes, ours, expected))
    if outcomes.is_native and bits is False and not any(f.is_failure for f in findings):
        message = "results or gradients are not bitwise identical to the stock lowering"
        findings.append(Finding(Check.BITS, message, outcomes.sample))
    again = outcomes.again
    # XLA may fuse the two calls differently, which changes last bits.
    repeats = isinstance(again, Values) and again.agrees(ours, _but_for_last_bits)
    if again is not None and not repeats:
        message = "the second call has other results than the first"
        findings.append(Finding(Check.REPEATED, message, outcomes.sample))
    numbers = GreatestErrors() if outcomes.is_random else _numbers(outcomes, ours)
    return Judged(tuple(findings), numbers, bits)


_LAST_BITS = 4
"""The allowed difference of two calls, in roundings of the largest number."""


def _but_for_last_bits(mine: Any, right: Any) -> bool:
    if same_bits(mine, right):
        return True
    if not isinstance(mine, torch.Tensor) or not isinstance(right, torch.Tensor):
        return False
    if _form(mine, right) is not None or not right.dtype.is_floating_point:
        return False
    a, b = mine.to(torch.float64), right.to(torch.float64)
    same = (a == b) | (a.isnan() & b.isnan())
    largest = float(b.abs().max())  # if it is not finite, only equal numbers are close
    close = (a - b).abs() <= _LAST_BITS * torch.finfo(right.dtype).eps * largest
    return bool((same | (close if math.isfinite(largest) else same)).all())


def _findings(outcomes: Outcomes, ours: Values, stock: Values | None) -> Iterator[Finding]:
    cpu, wide, sample = outcomes.cpu, outcomes.wide, outcomes.sample
    if len(ours.results) != len(cpu.results):
        message = f"{len(ours.results)} results, but PyTorch gives {len(cpu.results)}"
        yield Finding(Check.RESULTS, message, sample)
        return
    parts = (
        (Check.FORWARD, "result", ours.results, cpu.results, "results"),
        (Check.GRADIENT, "gradient", ours.gradients, cpu.gradients, "gradients"),
        (Check.OPERANDS, "operand", ours.operands, cpu.operands, "operands"),
    )
    for check, word, actual, expected, field_name in parts:
        if len(actual) != len(expected):
            message = f"{len(actual)} {word}s, but PyTorch gives {len(expected)}"
            as_stock = stock is not None and len(getattr(stock, field_name)) == len(actual)
            message += "; stock gives as many" if as_stock else ""
            yield Finding(check, message, sample, is_failure=not as_stock)
            continue
        wides = _aligned(wide, field_name, len(expected))
        stocks = _aligned(stock, field_name, len(expected))
        for number, (mine, right) in enumerate(zip(actual, expected, strict=True)):
            if outcomes.is_random and check is not Check.OPERANDS:
                wrong = _form(mine, right)
            else:
                wrong = _difference(mine, right, wides[number], outcomes.limit)
            if wrong is None:
                continue
            subject = f"{word} {number}" + (" after the call" if check is Check.OPERANDS else "")
            if stock is not None and same_bits(mine, stocks[number]):
                text = f"{subject}: {wrong}; stock gives the same bits"
                yield Finding(check, text, sample, is_failure=False)
            else:
                kind = Check.RESULTS if _form(mine, right) else check
                yield Finding(kind, f"{subject}: {wrong}", sample)


def _aligned(values: Values | None, name: str, count: int) -> Sequence[Any]:
    aligned = () if values is None else getattr(values, name)
    return aligned if len(aligned) == count else (None,) * count


def _form(mine: Any, right: Any) -> str | None:
    """The problem with the type of a result; None if there is none."""
    if not isinstance(right, torch.Tensor) or not isinstance(mine, torch.Tensor):
        return None if type(mine) is type(right) or mine is None or right is None else (
            f"{type(mine).__name__}, but PyTorch gives {type(right).__name__}"
        )  # fmt: skip
    if mine.shape != right.shape:
        return f"shape {list(mine.shape)}, but PyTorch gives {list(right.shape)}"
    if mine.dtype != right.dtype:
        return f"dtype {_name(mine.dtype)}, but PyTorch gives {_name(right.dtype)}"
    return None


def _difference(mine: Any, right: Any, wide: Any, accepted: float | None) -> str | None:
    """The problem with a result, a gradient or an operand; None if there is none."""
    wrong = _form(mine, right)
    if wrong is not None:
        return wrong
    if mine is None or right is None:
        present = mine if right is None else right
        if present is None or not bool(torch.count_nonzero(present)):
            return None  # no gradient, and a gradient of zeros, are the same
        return "there is none, but PyTorch has one" if mine is None else "PyTorch has none"
    if not isinstance(right, torch.Tensor):
        return None if mine == right else f"{mine!r}, but PyTorch gives {right!r}"
    limit = accepted_error(_name(right.dtype))
    if accepted is not None and (right.is_floating_point() or right.is_complex()):
        limit = accepted
    bad = ~_close(mine, right, wide, limit)
    if not bool(bad.any()):
        return None
    worst = errors(mine, right).reshape(-1).masked_fill(~bad.reshape(-1), -1).argmax()
    actual, expected = mine.reshape(-1)[worst], right.reshape(-1)[worst]
    error = float(errors(actual, expected))
    return (
        f"{_number(actual)} where PyTorch gives {_number(expected)} (error {error:.2g}, accepted"
        f" {limit:.2g}; {int(bad.sum())} of {bad.numel()} numbers)"
    )


def _close(mine: torch.Tensor, right: torch.Tensor, wide: Any, limit: float) -> torch.Tensor:
    """A mask of the numbers that are close enough to PyTorch's number, or to the number in f64, or
    as close to the number in f64 as PyTorch's number is."""
    close = errors(mine, right) <= limit
    if isinstance(wide, torch.Tensor) and wide.shape == right.shape:
        error = errors(mine, wide)
        expected = errors(right, wide)
        close |= (error <= limit) | (expected.isfinite() & (error <= 2 * expected))
    return close


def errors(mine: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """|a - b| / (1 + |b|); 0 for equal infinities and two NaNs, infinite for others of these."""
    a, b = _widest(mine), _widest(right)
    same = (a == b) | (a.isnan() & b.isnan())
    error = (a - b).abs() / (1 + b.abs())
    error = torch.where(error.isnan() | ~a.isfinite() | ~b.isfinite(), torch.inf, error)
    return torch.where(same, torch.zeros_like(error), error)


def _widest(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _greatest(mine: Sequence[Any], right: Sequence[Any]) -> float | None:
    pairs = zip(mine, right, strict=False)
    largest = [
        float(errors(a, b).max())
        for a, b in pairs
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
        and a.shape == b.shape and b.numel() and (b.is_floating_point() or b.is_complex())
    ]  # fmt: skip
    return max(largest, default=None)


def _numbers(outcomes: Outcomes, ours: Values) -> GreatestErrors:
    cpu, wide = outcomes.cpu, outcomes.wide or Values()
    changes_operands = not any(isinstance(result, torch.Tensor) for result in cpu.results)
    field_name = "operands" if changes_operands else "results"  # an optimizer returns nothing
    actual = getattr(ours, field_name)
    return GreatestErrors(
        _greatest(actual, getattr(cpu, field_name)),
        _greatest(actual, getattr(wide, field_name)),
        _greatest(ours.gradients, cpu.gradients),
        _greatest(ours.gradients, wide.gradients),
    )


def greatest(numbers: Sequence[GreatestErrors]) -> GreatestErrors:
    """The greatest errors of several samples."""
    columns = zip(*map(astuple, numbers), strict=True)
    return GreatestErrors(
        *(max((v for v in column if v is not None), default=None) for column in columns)
    )


def _name(dtype: torch.dtype) -> str:
    written = str(dtype).removeprefix("torch.")
    return NAME_OF_PYTORCH.get(written, written)


def _number(value: torch.Tensor) -> str:
    item = value.item()
    return f"{item:.6g}" if isinstance(item, float) else str(item)
