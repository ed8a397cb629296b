"""Checks of kernels while a model is trained: on the data of a step, each kernel and each
alternative of a graph is compared with the decomposition that it replaces."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from composites.errors import CompositesError, CompositesWarning
from composites.registry.listed_kernels import listed_tolerances
from composites.settings import CHECK_EVERY
from lowering.stablehlo.diagnosis.devices import with_kernels
from lowering.stablehlo.diagnosis.diagnose import Diagnoser
from lowering.stablehlo.diagnosis.results import DiagnosedComposite
from lowering.stablehlo.errors import StableHLOError
from lowering.stablehlo.kernels import PlacedKernels
from lowering.stats.data import Checks, CheckStats, recorded


def check_every() -> int:
    """The number of calls from a check to the next check; 0 for no checks.

    Raises:
        CompositesError: XLA_COMPOSITE_CHECK_EVERY is not a number of calls.
    """
    text = CHECK_EVERY.read()
    if not text:
        return 0
    if not text.isdecimal() or not int(text):
        raise CompositesError(f"{CHECK_EVERY.name}={text}: it must be a number of calls from 1")
    return int(text)


@dataclass
class GraphChecks:
    """The checks of one graph, at its first call and at each `every`th call after that."""

    every: int
    diagnoser: Diagnoser
    calls: int = 0
    warned: set[str] = field(default_factory=set)

    @classmethod
    def create(cls, placed: PlacedKernels, platform: str, every: int) -> "GraphChecks | None":
        """The checks of a graph; None if `every` is 0, or there is nothing to check."""
        if not every or not placed.taken:
            return None
        names = {call: candidate.name for call, candidate in placed.taken.items()}
        device = with_kernels(placed, platform)
        tolerances = listed_tolerances()
        return cls(every, Diagnoser(placed.original, device, tolerances=tolerances, kernels=names))

    def count(self, arrays: Sequence[Any]) -> None:
        """Count a call with the operands `arrays`, and check it if a check is due.

        The first wrong call of each kernel causes a warning.
        """
        self.calls += 1
        if (self.calls - 1) % self.every:
            return
        start = time.perf_counter()
        try:
            diagnosis, _ = self.diagnoser.run([np.asarray(array) for array in arrays])
        except StableHLOError as error:
            self._warn("", f"a graph cannot be checked: {error}")
            return
        replaced = [row for row in diagnosis.composites if row.kernel is not None]
        seconds = time.perf_counter() - start
        recorded.checks += Checks(tuple(map(_stats, replaced)), seconds)
        for row in replaced:
            if row.worst.problem is not None:
                where = f"call {self.calls} of a graph: kernel {row.kernel} is wrong"
                self._warn(row.kernel or "", f"{where}; {row.worst.problem}")

    def _warn(self, kernel: str, text: str) -> None:
        if kernel not in self.warned:
            self.warned.add(kernel)
            warnings.warn(text, CompositesWarning, stacklevel=4)


def _stats(row: DiagnosedComposite) -> CheckStats:
    errors = [call.own.error if call.own is not None else float("inf") for call in row.calls]
    return CheckStats(
        composite=row.call.name,
        kernel=row.kernel or "",
        calls=len(row.calls),
        wrong=sum(call.problem is not None for call in row.calls),
        error=max(errors) if all(map(isfinite, errors)) else None,
        tolerance=row.tolerance,
    )
