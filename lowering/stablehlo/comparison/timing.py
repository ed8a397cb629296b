"""Wall-clock times of compiled modules, run in turns, and how fast this machine copies memory.

The arrays are on the device before, and each time runs from the call until the results are ready.
What the client needs for a call of its own is part of it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from statistics import median
from typing import Any

from ..module import Module
from ..run import Executable, compile_module

_WARM_UP = 2
_FEWEST, _MOST = 5, 200
_SECONDS = 0.4
_COPIED_FLOATS = 8 * 1024 * 1024
"""32 MiB, more than the caches of one core."""


@dataclass(frozen=True)
class Machine:
    """The numbers of a machine that the times of a comparison are to be seen against."""

    platform: str
    copy_bandwidth: float
    """Bytes per second that a copy of a large array reads and writes."""
    call_seconds: float
    """Time of a module that does nothing: what a call costs without any work."""


def median_times(
    executables: Sequence[Executable], arrays: Sequence[Any], *, seconds: float = _SECONDS
) -> list[float]:
    """The median wall-clock seconds of each executable on the same arrays.

    They run in turns, so that what else the machine does meets all of them alike.
    """
    runs = [partial(each.execute, each.place(*arrays)) for each in executables]
    return [median(times) for times in times_in_turns(runs, seconds)]


def times_in_turns(
    runs: Sequence[Callable[[], object]], seconds: float = _SECONDS
) -> list[list[float]]:
    """The wall-clock seconds of several runs of each function, which take about `seconds` each."""
    for _ in range(_WARM_UP):
        for run in runs:
            run()
    times: list[list[float]] = [[] for _ in runs]
    until = time.perf_counter() + seconds * len(runs)
    for number in range(_MOST):
        if number >= _FEWEST and time.perf_counter() > until:
            break
        # Each finds the caches of the one before it: rounds begin with another one, and every
        # second one goes the other way.
        order = [(number + position) % len(runs) for position in range(len(runs))]
        for index in order if number % 2 == 0 else reversed(order):
            start = time.perf_counter()
            runs[index]()
            times[index].append(time.perf_counter() - start)
    return times


@cache
def machine(platform: str) -> Machine:
    """Measure the machine, once in a process."""
    return Machine(platform, _copy_bandwidth(platform), _call_seconds(platform))


def _call_seconds(platform: str) -> float:
    import numpy as np

    text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
    (seconds,) = median_times(
        [compile_module(Module.parse(text), platform=platform)], [np.float32(0)]
    )
    return seconds


def _copy_bandwidth(platform: str) -> float:
    """The fastest copy counts, because this is a bound. On the CPU numpy copies too: it does so
    without the pages that each result of XLA first needs from the system."""
    import numpy as np

    type_ = f"tensor<{_COPIED_FLOATS}xf32>"
    copy = Module.parse(
        f"func.func @main(%x: {type_}) -> {type_} {{"
        f" %0 = stablehlo.negate %x : {type_} return %0 : {type_} }}"
    )
    executable = compile_module(copy, platform=platform)
    values = np.ones(_COPIED_FLOATS, np.float32)
    runs: list[Callable[[], object]] = [partial(executable.execute, executable.place(values))]
    if platform == "cpu":
        target = np.empty_like(values)
        runs.append(partial(np.copyto, target, values))
    fastest = min(seconds for times in times_in_turns(runs) for seconds in times)
    return 2 * values.nbytes / fastest
