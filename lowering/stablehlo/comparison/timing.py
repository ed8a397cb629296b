"""Wall-clock times of compiled modules, run in turns, and a device's rates of copies and products.

The arrays are on the device beforehand, and a time runs from the call until the results are ready.
The time includes the client's own cost of a call.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from statistics import median
from typing import Any, TypeAlias

from composites.lazy_modules import np

from ..dtypes import numpy_dtype, static_tensor
from ..errors import RunError
from ..module import Module
from ..passes.decompositions import decompose, flatten_calls
from ..run import Executable, compile_module, function_types
from ..symbols import functions

_GATHERED = {("stablehlo.gather", 0), ("stablehlo.dynamic_slice", 0)}
"""Operations that read parts of an operand, with the operand's number."""
_WARM_UP = 2
_FEWEST, _MOST = 5, 200
_SECONDS = 0.4
_COPIED_FLOATS = 8 * 1024 * 1024
"""32 MiB, more than the caches of one core; GPUs copy eight times as much for larger caches."""
_SIZES = (512, 1024, 2048, 4096, 8192)
_LONG = 5e-3
"""Seconds of a matmul that keeps a device busy; a longer matmul has the same rate."""

Compile: TypeAlias = Callable[[Module], Callable[..., Sequence[Any]]]
"""A compiler of modules to functions of arrays, such as an `Executable`."""


@dataclass(frozen=True)
class Machine:
    """The rates of a machine, as a reference for measured times."""

    platform: str
    copy_bandwidth: float
    """Bytes per second that a copy of a large array reads and writes."""
    call_seconds: float
    """Time of a call without any work."""


def median_times(
    executables: Sequence[Callable[..., object]],
    arrays: Sequence[Any],
    *,
    seconds: float = _SECONDS,
) -> list[float]:
    """The median wall-clock seconds of each executable on the same arrays.

    Executables run in turns, so that other work of the machine affects all of them alike.
    """
    runs = [_on_arrays(run, arrays) for run in executables]
    return [median(times) for times in times_in_turns(runs, seconds)]


def moved_bytes(types: Iterable[str]) -> int:
    """The bytes of values of the given types.

    Raises:
        RunError: a shape is not static.
    """
    size = 0
    for type_ in types:
        static = static_tensor(type_)
        if static is None:
            raise RunError(
                f"{type_}: only calls with static shapes can be compared; choose them"
                " with `lowering.stablehlo.refine`"
            )
        size += math.prod(static[0]) * int(static[1].itemsize)
    return size


def kernel_bytes(module: Module) -> int:
    """The bytes that any kernel for `@main` has to move: all operands and results. An operand that
    is only gathered from, such as the table of an embedding, counts with the gathered parts."""
    plain = flatten_calls(decompose(module))
    main = functions(plain.ir)["main"]
    types, results = function_types(main)
    size = moved_bytes(results)
    for argument, type_ in zip(main.regions[0].blocks[0].arguments, types, strict=True):
        uses = [(use.owner.operation, use.operand_number) for use in argument.uses]
        bytes_read = moved_bytes([type_])
        if uses and all((user.name, number) in _GATHERED for user, number in uses):
            gathered = moved_bytes(str(user.results[0].type) for user, _ in uses)
            bytes_read = min(bytes_read, gathered)
        size += bytes_read
    return size


def _on_arrays(run: Callable[..., object], arrays: Sequence[Any]) -> Callable[[], object]:
    """A run on arrays. If jax runs it, the arrays are put on the device beforehand."""
    if isinstance(run, Executable):
        return partial(run.execute, run.place(*arrays))
    return partial(run, *arrays)


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
        # Each run inherits the caches of the run before it. Rounds therefore start with another
        # function, and every second round runs in reverse order.
        order = [(number + position) % len(runs) for position in range(len(runs))]
        for index in order if number % 2 == 0 else reversed(order):
            start = time.perf_counter()
            runs[index]()
            times[index].append(time.perf_counter() - start)
    return times


@cache
def machine(platform: str) -> Machine:
    """Measure the machine, once in a process."""
    return measured(platform, partial(compile_module, platform=platform))


def measured(platform: str, compiled: Compile) -> Machine:
    """Measure a compiler and the machine that runs its programs."""
    (seconds,) = median_times([compiled(_negation("tensor<f32>"))], [np.zeros((), np.float32)])
    return Machine(platform, _copy_bandwidth(platform, compiled), seconds)


def product_rate(compiled: Compile, element: str) -> float:
    """The operations per second of a matmul in an element type."""
    for size in _SIZES:
        type_ = f"tensor<{size}x{size}x{element}>"
        product = Module.parse(
            f"func.func @main(%x: {type_}) -> {type_} {{"
            f" %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]"
            f" : ({type_}, {type_}) -> {type_} return %0 : {type_} }}"
        )
        run = _on_arrays(compiled(product), [np.ones((size, size), numpy_dtype(element))])
        fastest = min(times_in_turns([run])[0])
        if fastest > _LONG:
            break
    return float(2 * size**3 / fastest)


def _copy_bandwidth(platform: str, compiled: Compile) -> float:
    """Bytes per second of the fastest copy, because the rate serves as a bound. On the CPU, numpy
    copies too, without the new memory pages that each result of XLA needs."""
    count = _COPIED_FLOATS if platform == "cpu" else 8 * _COPIED_FLOATS
    values = np.ones(count, np.float32)
    runs = [_on_arrays(compiled(_negation(f"tensor<{count}xf32>")), [values])]
    if platform == "cpu":
        runs.append(partial(np.copyto, np.empty_like(values), values))
    fastest = min(seconds for times in times_in_turns(runs) for seconds in times)
    return 2 * values.nbytes / fastest


def _negation(type_: str) -> Module:
    return Module.parse(
        f"func.func @main(%x: {type_}) -> {type_} {{"
        f" %0 = stablehlo.negate %x : {type_} return %0 : {type_} }}"
    )
