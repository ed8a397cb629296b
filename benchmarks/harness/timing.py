"""Times of two sides, measured so that noise meets both; what the benchmarks share.

- The sides alternate in blocks, in turned order. A block gives the least of its samples, and two
  neighbouring blocks give one ratio, since a shared machine changes its pace between blocks.
- A ratio is the median of these, and its quartiles say how sure it is. A ratio above its bar whose
  lower quartile is not is marked `~`: this run cannot tell.
- Garbage is collected before a block and not during it. Before a sample all pending work is done.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.harness.pages import versions_of

T = TypeVar("T")

SAMPLES_PER_BLOCK = 3


@dataclass(frozen=True, slots=True)
class Ratio:
    """The second side's time to the first one's."""

    median: float
    lower: float
    upper: float
    """Quartiles."""

    @property
    def middle_half(self) -> str:
        return f"{self.lower:.2f} to {self.upper:.2f}"

    def verdict(self, bar: float | None) -> str:
        """`met` if it is at most `bar`; `~` where the quartiles do not confirm that it is not."""
        if bar is None:
            return ""
        if round(self.median, 2) <= bar:
            return "met"
        return "~" if round(self.lower, 2) <= bar else "missed"


def reached(value: float | None, bar: float | None) -> str:
    """A bar, and `met` or `missed`: a value is to be at least that."""
    if bar is None:
        return ""
    return f"{bar:g} " + ("met" if value is not None and value >= bar else "missed")


def kept(value: float, bar: float) -> str:
    """A bar, and `met` or `missed`: a value is to be at most that."""
    return f"{bar:g} " + ("met" if value <= bar else "missed")


def ratio(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> Ratio:
    """The ratio of the samples of two sides, block by block."""
    ratios = [min(b) / min(a) for a, b in zip(first, second, strict=True)]
    if len(ratios) == 1:
        return Ratio(ratios[0], ratios[0], ratios[0])
    lower, _, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    return Ratio(statistics.median(ratios), lower, upper)


BESIDE_STOCK = ("quantity", "stock", "composites", "ratio", "middle half", "bar", "")


def beside_stock(
    quantity: str, written: Sequence[str], to_stock: Ratio, bar: float | None
) -> tuple[str, ...]:
    """A row of a table with the head `BESIDE_STOCK`.

    Args:
        written: the value of stock, and that of composites.
        bar: the ratio that is allowed, at most.
    """
    limit = "" if bar is None else f"<= {bar:g}"
    middle_half, verdict = to_stock.middle_half, to_stock.verdict(bar)
    return quantity, *written, f"{to_stock.median:.2f}", middle_half, limit, verdict


def typical(blocks: Sequence[Sequence[float]]) -> float:
    """The median of the least sample of each block."""
    return statistics.median(min(block) for block in blocks)


def alternated(
    sides: Sequence[Callable[[int], list[float]]], pairs: int, samples: int = SAMPLES_PER_BLOCK
) -> list[list[list[float]]]:
    """Blocks of each side, in turned order. A side takes a number of samples and returns them."""
    blocks: list[list[list[float]]] = [[] for _ in sides]
    for number in range(pairs):
        order = range(len(sides))
        for side in order if number % 2 == 0 else reversed(order):
            with no_garbage_collection():
                blocks[side].append(sides[side](samples))
    return blocks


def samples_of(run: Callable[[], Any], count: int) -> list[float]:
    """The seconds of each of `count` runs, after one that fills the caches."""
    run()
    return [seconds(run)[0] for _ in range(count)]


def affordable(step: float, budget: float, fewest: int, most: int) -> tuple[int, int]:
    """The numbers of blocks, within about `budget` seconds, and of samples of each block.

    Args:
        step: seconds of one step of all sides.
        fewest, most: blocks, whatever the budget.
    """
    blocks = int(budget / (step * (1 + SAMPLES_PER_BLOCK)))  # a block begins with a step untimed
    if blocks >= fewest:
        return min(most, blocks), SAMPLES_PER_BLOCK
    return fewest, 1


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collect garbage now, and not in the block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def seconds(action: Callable[[], T]) -> tuple[float, T]:
    """The seconds that an action took, and the value that it returned."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def settle() -> None:
    """Finish all pending work of torch_xla."""
    import torch_xla
    import torch_xla.core.xla_model as xm

    torch_xla.sync()
    xm.wait_device_ops()


def seconds_compiling() -> float:
    """The seconds for which XLA has compiled for torch_xla in this process."""
    from torch_xla.debug import metrics

    data = metrics.metric_data("CompileTime")
    return 0.0 if data is None else float(data[1]) / 1e9


def milliseconds(value: float | None) -> str:
    """Seconds as text, with three digits; empty without a value."""
    if value is None:
        return ""
    scaled = value * 1e3
    return f"{scaled:,.{2 if scaled < 10 else 1 if scaled < 100 else 0}f} ms"


ALLOCATION = "MALLOC_ARENA_MAX", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"
"""Settings of glibc's malloc that a step's time depends on; docs/usage.md has them."""


def settings_of_malloc() -> dict[str, str]:
    """The environment variables of the memory allocation that are set."""
    return {name: os.environ[name] for name in ALLOCATION if os.environ.get(name)}


PACKAGES = ("torch", "torch_xla", "transformers", "torch-xla-composites")
"""The packages whose versions times depend on."""


def conditions(what: str) -> str:
    """Versions, machine, how memory is allocated if that is set, and `what`, as one line."""
    allocation = "".join(f", {name}={value}" for name, value in settings_of_malloc().items())
    return (
        f"{versions_of(*PACKAGES)}; Python {platform.python_version()}; {cpu_name()},"
        f" {os.cpu_count()} cores, device {os.environ['PJRT_DEVICE']}{allocation}; {what}."
    )


def cpu_name() -> str:
    """The processor, as Linux names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
