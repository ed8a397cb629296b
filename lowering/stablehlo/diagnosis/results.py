"""The results of `diagnose`: data, JSON, and node data for Model Explorer."""

import json
import math
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from ..comparison.difference import Difference
from ..inspection.report import finite

OUTSIDE = "operations outside composites"
"""The name of what is no composite."""

_COLORS = {True: "#f28b82", False: "#ccff90"}


@dataclass(frozen=True)
class DiagnosedPart:
    """A composite, or the operations between two composites, on the device."""

    composite: str
    """The name; `operations outside composites` for others."""
    version: int
    attributes: dict[str, Any]
    operands: tuple[str, ...]
    results: tuple[str, ...]
    number: int
    """The composite's number among those of the program, from 1; of operations outside, that of the
    composite before them."""
    node: int
    """The number of the operation in `@main`, as Model Explorer counts."""
    kernel: str | None
    """The kernels that ran; None if there were none."""
    why_no_kernel: str | None
    """The reasons why kernels that were asked for do not take the call."""
    tolerance: float
    own: Difference | None
    """The difference from the reference, on the reference's inputs; None if the device failed."""
    added: Difference | None
    """The difference where the device has also computed all that comes before. After a failure, the
    reference's numbers are taken."""
    problem: str | None
    """The reason why it is wrong; None if it is right."""

    @property
    def rank(self) -> tuple[bool, float]:
        """The place among all parts: whether it is wrong, and its error by the tolerance."""
        if self.own is None:
            return True, math.inf
        error, allowed = self.own.error, self.tolerance
        excess = error / allowed if allowed else math.inf if error else 0.0
        return self.problem is not None, excess


@dataclass(frozen=True)
class Diagnosis:
    """The result of `diagnose`."""

    module: str
    """The module's symbol name."""
    parts: tuple[DiagnosedPart, ...]
    """In the order of the program."""
    in_regions: int
    """Composites in loops and other regions. They are part of the operations outside composites."""

    @property
    def groups(self) -> tuple[tuple[DiagnosedPart, ...], ...]:
        """The parts that differ in nothing but their numbers, worst first, and the groups by their
        worst part: those that bring the error in come first."""
        groups: dict[str, list[DiagnosedPart]] = {}
        for part in self.parts:
            key = (part.composite, part.version, part.attributes, part.operands, part.results)
            groups.setdefault(OUTSIDE if part.composite == OUTSIDE else repr(key), []).append(part)
        ranked = (
            tuple(sorted(group, key=lambda part: part.rank, reverse=True))
            for group in groups.values()
        )
        return tuple(sorted(ranked, key=lambda group: group[0].rank, reverse=True))

    @property
    def problems(self) -> tuple[str, ...]:
        """The worst problem of each group; empty if all is right."""
        return tuple(group[0].problem for group in self.groups if group[0].problem is not None)

    def to_json(self) -> str:
        """The diagnosis as JSON. Infinities and NaN are written as text."""
        return json.dumps(finite(asdict(self)), indent=2, sort_keys=True, allow_nan=False)

    def node_data(self) -> str:
        """The errors of composites as Model Explorer's custom node data, by number of the operation
        in the graph `main`. Red ones are above their tolerance."""
        results = {
            str(part.node): {"value": _number(part), "bgColor": _COLORS[part.problem is not None]}
            for part in _composites(self.parts)
        }
        return json.dumps({"main": {"name": "error", "results": results}}, indent=2)


def _composites(parts: Iterable[DiagnosedPart]) -> list[DiagnosedPart]:
    return [part for part in parts if part.composite != OUTSIDE]


def _number(part: DiagnosedPart) -> float:
    """The error as JSON can have it."""
    return sys.float_info.max if part.own is None else min(part.own.error, sys.float_info.max)
