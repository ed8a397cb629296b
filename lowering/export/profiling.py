"""The time of a step: of the whole step, and of each distinct call of a composite alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowering.stablehlo.comparison.inputs import make_inputs
from lowering.stablehlo.comparison.timing import median_times
from lowering.stablehlo.inspection.table import readable_seconds, readable_types, report_table
from lowering.stablehlo.kernels import KernelUse, PlacedKernels, outer_calls, put_alone
from lowering.stablehlo.run import compile_module
from lowering.stablehlo.single_calls import decomposition_module

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class ProfiledCall:
    """One distinct call of a composite."""

    call: KernelUse
    seconds: float
    """Median time of one call alone, with its kernel or alternative if it has one, or else with the
    decomposition."""
    decomposition_seconds: float
    """Median time of the decomposition alone."""

    @property
    def total(self) -> float:
        """The time of all calls of this kind."""
        return self.call.count * self.seconds


@dataclass(frozen=True, slots=True)
class Profile:
    """Times of a step in seconds. `print(profile)` writes a table."""

    step: float
    """Median time of the whole step, from the call until the results are ready."""
    calls: tuple[ProfiledCall, ...]
    """The calls outside decompositions, by descending total time."""

    @property
    def table(self) -> Table:
        """The times as a table of rich."""
        return report_table(
            ("composite", "types", "kernel"),
            ("count", "one call", "decomposition", "all", "of the step"),
            map(self._cells, self.calls),
            caption=f"whole step: {readable_seconds(self.step)}",
        )

    def _cells(self, row: ProfiledCall) -> tuple[str, ...]:
        use = row.call
        return (
            f"{use.composite} v{use.version}",
            readable_types(use.operands, use.results),
            use.kernel or use.alternative or "",
            str(use.count),
            readable_seconds(row.seconds),
            readable_seconds(row.decomposition_seconds),
            readable_seconds(row.total),
            f"{row.total / self.step:.0%}",
        )

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=140)
        with console.capture() as captured:
            console.print(self.table)
        return captured.get()


def profile_calls(
    placed: PlacedKernels, platform: str, step_seconds: float, seconds: float
) -> Profile:
    """Time each distinct call of a composite alone, on random operands of its types."""
    rows = []
    for (call, decomposition), count in outer_calls(placed.original).items():
        plain = decomposition_module(placed.original, decomposition)
        executables = [compile_module(plain, platform=platform)]
        inputs = make_inputs(plain, executables[0])
        if call in placed.taken:
            alone = put_alone(placed.original, call, placed.taken[call], platform)
            executables.append(compile_module(alone, platform=platform))
        times = median_times(executables, inputs.arrays, seconds=seconds)
        rows.append(ProfiledCall(placed.use(call, count), times[-1], times[0]))
    rows.sort(key=lambda row: -row.total)
    return Profile(step_seconds, tuple(rows))
