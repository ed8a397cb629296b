"""Which forms of StableHLO's operations a consumer computes wrongly: generated ones, beside jax.

    python -m benchmarks.consumer_operations [--kinds gather,pad] [--consumers iree,litert]
                                             [--count 40] [--seed 0]

Each kind is a function of `KINDS` that makes an operation of jax.lax from random numbers, with
operands. The module of the operation goes through the passes of the consumer's target, and runs
there. What the target refuses is not run. Operations that have other numbers than jax are printed
with their StableHLO, and the script ends with status 1. Those that the consumer does not take, with
an error of its own, are printed as well: the target may refuse them by name.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax.numpy
import numpy as np
from jax import lax
from numpy.random import Generator

from benchmarks.consumer_runs import CONSUMERS, TARGET, Consumer, largest_error
from benchmarks.harness.processes import each_in_processes
from lowering.stablehlo import Module, UnsupportedOperationError, run, run_passes, target_passes

TOLERANCE = 1e-5
OF_A_PROCESS = 20
Operation = tuple[Callable[..., Any], list[np.ndarray]]
"""A function of jax.lax with its options, and the operands."""


@dataclass(frozen=True)
class Case:
    """One generated operation on one consumer."""

    kind: str
    consumer: Consumer
    seed: int


@dataclass(frozen=True)
class Outcome:
    """`right`, `refused` by the target, `wrong` or `failed`; with the StableHLO and the reason."""

    kind: str
    text: str = ""
    reason: str = ""


def sizes(random: Generator, rank: int, least: int = 1, most: int = 6) -> list[int]:
    return [int(size) for size in random.integers(least, most + 1, rank)]


def floats(random: Generator, shape: Sequence[int]) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def some(random: Generator, count: int, of_them: int | None = None) -> list[int]:
    """A few of the first `count` numbers, in order; any number of them, or one that is said."""
    chosen = random.integers(0, count + 1) if of_them is None else of_them
    return sorted(int(each) for each in random.permutation(count)[:chosen])


def gather(random: Generator) -> Operation:
    """Windows whose sizes, indices and dimensions are any; some indices are outside."""
    operand = sizes(random, int(random.integers(1, 5)))
    rank = len(operand)
    indexed = some(random, rank, int(random.integers(1, rank + 1)))
    window = [
        int(random.integers(1, size + 1)) if random.random() < 0.4 else size for size in operand
    ]
    window = [1 if d in indexed and random.random() < 0.5 else s for d, s in enumerate(window)]
    collapsed = [d for d in range(rank) if window[d] == 1 and random.random() < 0.6]
    batch = sizes(random, int(random.integers(0, 3)))
    offsets = rank - len(collapsed)
    places = some(random, offsets + len(batch), offsets)
    order = [int(each) for each in random.permutation(indexed)]
    numbers = lax.GatherDimensionNumbers(tuple(places), tuple(collapsed), tuple(order))
    outside = int(random.random() < 0.2)
    bounds = [(-outside, operand[d] - window[d] + 1 + outside) for d in order]
    indices = np.stack([random.integers(*each, batch) for each in bounds], -1).astype(np.int32)
    call = partial(
        lax.gather, dimension_numbers=numbers, slice_sizes=window, mode="promise_in_bounds"
    )
    return call, [floats(random, operand), indices]


def scatter(random: Generator) -> Operation:
    """Updates of rows, elements and windows; replaced, added up, multiplied, or the greatest."""
    operand = sizes(random, int(random.integers(1, 4)))
    rank = len(operand)
    indexed = some(random, rank, int(random.integers(1, rank + 1)))
    inserted = [d for d in indexed if random.random() < 0.8]
    window = [
        1 if d in indexed else int(random.integers(1, s + 1)) if random.random() < 0.3 else s
        for d, s in enumerate(operand)
        if d not in inserted
    ]
    batch = sizes(random, int(random.integers(0, 3)), most=4)
    places = some(random, len(window) + len(batch), len(window))
    updates, windows, batches = [], iter(window), iter(batch)
    for place in range(len(window) + len(batch)):
        updates.append(next(windows) if place in places else next(batches))
    order = [int(each) for each in random.permutation(indexed)]
    numbers = lax.ScatterDimensionNumbers(tuple(places), tuple(inserted), tuple(order))
    call = [lax.scatter, lax.scatter_add, lax.scatter_mul, lax.scatter_max][random.integers(4)]
    # Which of two updates replaces the other is not defined, so that indices are distinct there.
    count = int(np.prod(batch, dtype=int))
    every = int(np.prod([operand[d] for d in order]))
    if call is lax.scatter:
        while count > every:
            return scatter(random)
        flat = random.permutation(every)[:count]
        indices = np.stack(np.unravel_index(flat, [operand[d] for d in order]), -1)
        indices = indices.reshape(*batch, len(order))
    else:
        indices = np.stack([random.integers(-1, operand[d] + 1, batch) for d in order], -1)
    options = {"dimension_numbers": numbers, "mode": "promise_in_bounds"}
    values = [floats(random, operand), indices.astype(np.int32), floats(random, updates)]
    return partial(call, **options), values


def pad(random: Generator) -> Operation:
    """Padding at both ends and between elements; negative padding cuts off."""
    shape = sizes(random, int(random.integers(1, 5)))
    around = [
        (
            *(int(each) for each in random.integers(-1 if size > 2 else 0, 3, 2)),
            int(random.integers(0, 3)) if random.random() < 0.3 else 0,
        )
        for size in shape
    ]
    value = np.array(random.choice([0.0, 1.5, -np.inf]), np.float32)
    return partial(lax.pad, padding_config=around), [floats(random, shape), value]


def convolution(random: Generator) -> Operation:
    """Any layout, stride, padding, dilation and number of groups, in one to three dimensions."""
    spatial = int(random.choice([1, 2, 2, 2, 3]))
    groups, batch_groups = [(1, 1), (1, 1), (2, 1), (4, 1), (1, 2)][random.integers(5)]
    window = sizes(random, spatial, 1, 3)
    image = sizes(random, spatial, 4, 7)
    batch, features, results = 2, 4, 4 * int(random.integers(1, 3))
    dilated = random.random() < 0.3
    names = "0123"[:spatial]
    layouts = [
        ("NC" + names, "OI" + names, "NC" + names),
        ("N" + names + "C", names + "IO", "N" + names + "C"),
        ("N" + names + "C", "O" + names + "I", "N" + names + "C"),
        ("C" + names + "N", "I" + names + "O", "N" + names + "C"),
    ]
    layout = layouts[random.integers(len(layouts))]
    kernel = {"O": results, "I": features // groups, **dict(zip(names, window, strict=True))}
    given = {"N": batch, "C": features, **dict(zip(names, image, strict=True))}
    options: dict[str, Any] = {
        "window_strides": sizes(random, spatial, 1, 2),
        "padding": [tuple(sizes(random, 2, 0, 2)) for _ in names],
        "lhs_dilation": sizes(random, spatial, 1, 2) if dilated else None,
        "rhs_dilation": sizes(random, spatial, 1, 2) if random.random() < 0.3 else None,
        "dimension_numbers": layout,
        "feature_group_count": groups,
        "batch_group_count": batch_groups,
    }
    operands = [floats(random, [given[name] for name in layout[0]])]
    operands.append(floats(random, [kernel[name] for name in layout[1]]))
    return partial(lax.conv_general_dilated, **options), operands


def reduction(random: Generator) -> Operation:
    """Sums, products, extremes and their places, `all` and `any`, along any dimensions."""
    # XLA drops the start of a reduction of single elements.
    shape = sizes(random, int(random.integers(1, 5)), least=int(random.integers(1, 3)))
    dims = some(random, len(shape), int(random.integers(1, len(shape) + 1)))
    names = ("sum", "prod", "max", "min", "all", "any", "argmax", "argmin", "from a number")
    name = names[random.integers(len(names) - (1 in shape))]
    if name == "from a number":
        add = [lax.add, lax.max, lax.min, lax.mul][random.integers(4)]
        call = partial(lax.reduce, init_values=np.float32(0.5), computation=add, dimensions=dims)
        return call, [floats(random, shape)]
    if name in ("all", "any"):
        operand = random.random(shape) < 0.5
    elif random.random() < 0.3:
        operand = random.integers(-9, 9, shape).astype(np.int32)
    else:
        operand = floats(random, shape)
    axes = {"axis": dims[0]} if name.startswith("arg") else {"axis": tuple(dims)}
    return partial(getattr(jax.numpy, name), **axes), [operand]


def window(random: Generator) -> Operation:
    """Reductions of windows, and running ones."""
    shape = sizes(random, int(random.integers(1, 5)), 1, 7)
    extent = [int(random.integers(1, min(size, 3) + 1)) for size in shape]
    add, start = [(lax.add, 0.0), (lax.max, -np.inf), (lax.min, np.inf), (lax.mul, 1.0)][
        random.integers(4)
    ]
    if random.random() < 0.2:
        call = [lax.cumsum, lax.cummax, lax.cumprod, lax.cummin][random.integers(4)]
        axis, reverse = int(random.integers(len(shape))), bool(random.random() < 0.5)
        return partial(call, axis=axis, reverse=reverse), [floats(random, shape)]
    many = random.random() < 0.3
    options = {
        "window_dimensions": extent,
        "window_strides": sizes(random, len(shape), 1, 2),
        "padding": [
            tuple(sizes(random, 2, 0, size - 1)) if size > 1 else (0, 0) for size in extent
        ],
        "window_dilation": sizes(random, len(shape), 1, 2) if many else None,
        "base_dilation": sizes(random, len(shape), 1, 2) if many else None,
    }
    call = partial(lax.reduce_window, init_value=np.float32(start), computation=add, **options)
    return call, [floats(random, shape)]


def product(random: Generator) -> Operation:
    """Products over any dimensions, with any batch dimensions."""
    shared = sizes(random, int(random.integers(0, 3)))
    summed = sizes(random, int(random.integers(0, 3)))
    left = [*shared, *summed, *sizes(random, int(random.integers(0, 3)))]
    right = [*shared, *summed, *sizes(random, int(random.integers(0, 3)))]
    orders = [random.permutation(len(each)) for each in (left, right)]
    # Where the dimension that was at each place is after the permutation.
    places = [[int(np.flatnonzero(order == d)[0]) for d in range(len(order))] for order in orders]
    batch, end = len(shared), len(shared) + len(summed)
    numbers = (
        tuple(each[batch:end] for each in places),
        tuple(each[:batch] for each in places),
    )
    operands = [
        floats(random, [shape[d] for d in order])
        for shape, order in zip((left, right), orders, strict=True)
    ]
    return partial(lax.dot_general, dimension_numbers=numbers), operands


def dynamic(random: Generator) -> Operation:
    """Slices from, and updates at, places that are operands; some are outside."""
    shape = sizes(random, int(random.integers(1, 5)))
    size = [int(random.integers(1, each + 1)) for each in shape]
    starts = [np.array(random.integers(-2, each + 2), np.int32) for each in shape]
    if random.random() < 0.5:
        call = lambda x, *at: lax.dynamic_slice(x, at, size)  # noqa: E731
        return call, [floats(random, shape), *starts]
    call = lambda x, y, *at: lax.dynamic_update_slice(x, y, at)  # noqa: E731
    return call, [floats(random, shape), floats(random, size), *starts]


def movement(random: Generator) -> Operation:
    """Slices with strides, reversed, transposed and broadcast operands, concatenations."""
    shape = sizes(random, int(random.integers(1, 6)))
    name = ("slice", "rev", "transpose", "broadcast", "concatenate")[random.integers(5)]
    operand = floats(random, shape)
    if name == "slice":
        starts = [int(random.integers(0, size)) for size in shape]
        return partial(
            lax.slice, start_indices=starts, limit_indices=shape, strides=sizes(random, len(shape))
        ), [operand]
    if name == "rev":
        return partial(lax.rev, dimensions=some(random, len(shape))), [operand]
    if name == "transpose":
        order = [int(each) for each in random.permutation(len(shape))]
        return partial(lax.transpose, permutation=order), [operand]
    if name == "broadcast":
        dims = some(random, len(shape) + 2, len(shape))
        result = sizes(random, len(shape) + 2)
        for dim, size in zip(dims, shape, strict=True):
            result[dim] = size if size > 1 else result[dim]
        call = partial(lax.broadcast_in_dim, shape=result, broadcast_dimensions=dims)
        return call, [operand]
    dim = int(random.integers(len(shape)))
    return lambda *operands: lax.concatenate(operands, dim), [operand, operand * 2, operand]


KINDS: dict[str, Callable[[Generator], Operation]] = {
    each.__name__: each
    for each in (
        gather,
        scatter,
        pad,
        convolution,
        reduction,
        window,
        product,
        dynamic,
        movement,
    )
}


def module_of(kind: str, seed: int) -> tuple[Module, list[np.ndarray]]:
    """A generated operation as a module, and its operands."""
    call, operands = KINDS[kind](np.random.default_rng([seed, *kind.encode()]))
    return Module.parse(jax.jit(call).lower(*operands).as_text()), operands


def outcome(case: Case) -> Outcome:
    """Run a case here, on jax and on its consumer."""
    module, operands = module_of(case.kind, case.seed)
    (want,) = run(module, *operands)
    try:
        lowered = run_passes(module, target_passes(TARGET[case.consumer]))
    except UnsupportedOperationError as error:
        return Outcome("refused", reason=str(error))
    try:
        (found,) = CONSUMERS[case.consumer](lowered, operands)
    except Exception as error:  # of any kind: the consumers have many
        lines = str(error).strip().splitlines()
        reason = next((line for line in lines if "error:" in line), lines[-1])
        return Outcome("failed", module.text, reason[:300])
    distance = difference(found, want)
    kind = "right" if distance <= TOLERANCE else "wrong"
    return Outcome(kind, module.text, f"error {distance:.0e}")


def difference(found: Any, want: Any) -> float:
    """The largest error of a result whose infinities are in the same places; else infinity."""
    one, other = np.asarray(found, np.float64), np.asarray(want, np.float64)
    if one.shape != other.shape:
        return np.inf
    finite = np.isfinite(other)
    if not np.array_equal(np.where(finite, 0, one), np.where(finite, 0, other), equal_nan=True):
        return np.inf
    return largest_error({"": one[finite]}, {"": other[finite]})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--consumers", default="iree,litert")
    parser.add_argument("--count", type=int, default=40, help="of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the first operation")
    options = parser.parse_args()
    cases = [
        Case(kind, consumer, seed)
        for consumer in get_args(Consumer)
        if consumer in options.consumers.split(",")
        for kind in KINDS
        if kind in options.kinds.split(",")
        for seed in range(options.seed, options.seed + options.count)
    ]
    if not cases:
        parser.error(f"no kind or consumer of these names (there are {', '.join(KINDS)})")
    counts: Counter[tuple[str, str, str]] = Counter()
    for case, result in zip(cases, each_in_processes(outcome, cases, OF_A_PROCESS), strict=True):
        if isinstance(result, BrokenProcessPool):
            result = Outcome("failed", module_of(case.kind, case.seed)[0].text, "its process ended")
        counts[case.consumer, case.kind, result.kind] += 1
        if result.kind in ("wrong", "failed"):
            print(f"{case.consumer}: {case.kind} {case.seed}: {result.kind}, {result.reason}")
            print(result.text)
    for (consumer, kind, found), count in counts.items():
        print(f"{consumer}\t{kind}\t{found}\t{count}")
    wrong = sum(count for (_, _, found), count in counts.items() if found == "wrong")
    sys.exit(f"{wrong} of {len(cases)} operations have other numbers" if wrong else 0)


if __name__ == "__main__":
    main()
