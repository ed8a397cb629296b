"""The findings of `composites verify`, as frozen values. This module needs no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The verdict on one entry in one dtype."""

    VERIFIED = "verified"
    FAILED = "failed"
    NOT_VERIFIED = "not verified"


class Check(StrEnum):
    """The subject of a finding."""

    CALL = "call"
    """The call, or the function of the entry, failed."""
    RESULTS = "results"
    """Number, shape or dtype of the results."""
    FORWARD = "forward"
    GRADIENT = "gradient"
    BITS = "bits"
    OPERANDS = "operands"
    """The effect of the call on its operands."""
    CLAIMED = "claimed"
    CONDITIONS = "conditions"
    ATTRIBUTES = "attributes"
    REPEATED = "repeated"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, or a fact that users should know."""

    check: Check
    message: str
    sample: str = ""
    is_failure: bool = True


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """Calls that the entry did not claim, for one reason."""

    reason: str
    calls: int


@dataclass(frozen=True, slots=True)
class GreatestErrors:
    """The greatest errors of an entry in one dtype; None where nothing was compared."""

    forward: float | None = None
    forward_f64: float | None = None
    gradient: float | None = None
    gradient_f64: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One entry in one dtype."""

    entry: str
    dtype: str
    source: str
    """The source of the samples."""
    samples: int
    claimed: int = 0
    unclaimed: tuple[Unclaimed, ...] = ()
    numbers: GreatestErrors = GreatestErrors()
    tolerance: float = 0.0
    same_bits: bool | None = None
    """True if all results have the stock lowering's bits; None if that did not run."""
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0

    @property
    def verdict(self) -> Verdict:
        if any(finding.is_failure for finding in self.findings):
            return Verdict.FAILED
        unsure = any(finding.check is Check.CLAIMED for finding in self.findings)
        return Verdict.VERIFIED if self.claimed and not unsure else Verdict.NOT_VERIFIED


def with_verdict(rows: Sequence[Row], verdict: Verdict) -> tuple[Row, ...]:
    """The rows that have a verdict."""
    return tuple(row for row in rows if row.verdict is verdict)


def entry_names(rows: Sequence[Row]) -> tuple[str, ...]:
    """The names of the entries, without repetition."""
    return tuple(dict.fromkeys(row.entry for row in rows))
