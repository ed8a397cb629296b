"""Operands to run one call with: made from its types, or computed by a program from real inputs.

Made operands depend on the types and on the decomposition alone, so they are equal in each run.

| operand | values |
|---|---|
| float, complex | normally distributed |
| float, if the results are then not finite | positive: uniform between 0.05 and 0.95 |
| integer that is used as an index | 0 to the size of the indexed dimension |
| other integer | 1 to 7, or less than the smallest dimension if that is smaller |
| boolean | three of four are true, and the first in each row |
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from composites.lazy_modules import np

from ..composites import signature
from ..data_movement import element_type
from ..dtypes import element_name, is_float, static_tensor
from ..errors import RunError
from ..ir_types import IrOperation, IrValue
from ..module import Module
from ..passes.decompositions import decompose, flatten_calls
from ..run import Executable, compile_module, main_types
from ..single_calls import extracted
from ..symbols import COMPOSITE, body, functions

_SEED = 0
_LARGEST_INTEGER = 8
_INDEX_MAP = re.compile(r"(?:start_index_map|scatter_dims_to_operand_dims) = \[([\d, ]*)\]")


@dataclass(frozen=True)
class Inputs:
    """The operands of one call."""

    arrays: tuple[Any, ...]
    source: str
    """The way in which the operands were made, for the report."""


def make_inputs(decomposition: Module, executable: Executable) -> Inputs:
    """Make operands for a call. `decomposition` is the module that `executable` was compiled from.

    A variance has to be positive and a probability less than 1. A decomposition does not show the
    meaning of its operands. So if normally distributed numbers give results that are not finite,
    positive numbers are tried: for one operand after the other, and then for all.
    """
    types = executable.inputs
    limits = _integer_limits(decomposition, types)
    floats = [number for number, type_ in enumerate(types) if is_float(element_name(type_))]
    normal = Inputs(_arrays(types, limits, ()), "normal")
    attempts = [normal]
    attempts += [Inputs(_arrays(types, limits, [n]), f"positive operand {n}") for n in floats]
    attempts += [Inputs(_arrays(types, limits, floats), "positive")]
    for attempt in attempts if floats else ():
        if _all_finite(executable(*attempt.arrays)):
            return attempt
    return normal


def typical_inputs(program: Module) -> tuple[Any, ...]:
    """Make inputs of a program from their types alone, without running the program."""
    plain = flatten_calls(decompose(program))
    types = main_types(plain)[0]
    return _arrays(types, _integer_limits(plain, types), ())


def _arrays(
    types: Sequence[str], limits: Sequence[tuple[int, int]], positive: Iterable[int]
) -> tuple[Any, ...]:
    random = np.random.default_rng(_SEED)
    positive = frozenset(positive)
    return tuple(
        _array(random, type_, limit, number in positive)
        for number, (type_, limit) in enumerate(zip(types, limits, strict=True))
    )


def _array(random: Any, type_: str, limit: tuple[int, int], positive: bool) -> Any:
    static = static_tensor(type_)
    if static is None:
        raise RunError(
            f"{type_}: only static shapes can be compared; choose them"
            " with `lowering.stablehlo.refine`"
        )
    shape, dtype = static
    if dtype == np.bool_:
        values = np.asarray(random.random(shape) < 0.75)
        np.atleast_1d(values)[..., :1] = True  # no row of a mask is empty
        return values
    if np.issubdtype(dtype, np.complexfloating):
        return np.asarray(random.standard_normal(shape) + 1j * random.standard_normal(shape), dtype)
    if not is_float(element_name(type_)):
        return np.asarray(random.integers(*limit, size=shape), dtype)
    values = random.uniform(0.05, 0.95, shape) if positive else random.standard_normal(shape)
    return np.asarray(values, dtype)


def _all_finite(arrays: Iterable[Any]) -> bool:
    return all(
        bool(np.isfinite(np.asarray(array, np.float64)).all())
        for array in arrays
        if array.dtype.kind in "fV" or "float" in array.dtype.name
    )


# ---- integers ----


def _integer_limits(decomposition: Module, types: Sequence[str]) -> list[tuple[int, int]]:
    """For each input, the lowest and 1 more than the highest value that an integer may have."""
    limits: dict[int, int] = {}
    for number, limit in _uses_as_index(functions(decomposition.ir)["main"]):
        limits[number] = min(limit, limits.get(number, limit))
    sizes = [
        size for static in map(static_tensor, types) if static for size in static[0] if size > 1
    ]
    plain = (1, max(2, min([_LARGEST_INTEGER, *sizes])))
    return [
        (0, max(1, limits[number])) if number in limits else plain for number in range(len(types))
    ]


def _uses_as_index(main: IrOperation) -> Iterator[tuple[int, int]]:
    """Yield the inputs that an index is computed from, with the size of the indexed dimension."""
    block = body(main)
    if block is None:
        return
    sources: dict[IrValue, frozenset[int]] = {
        argument: frozenset([number])
        for number, argument in enumerate(block.arguments)
        if not is_float(element_type(argument))
    }
    counters: dict[IrValue, int] = {}  # values of iota, and their sizes
    for operation in (view.operation for view in block.operations):
        operands = list(operation.operands)
        for position, limit in _index_limits(operation, counters):
            for number in sources.get(operands[position], ()):
                yield number, limit
        numbers = frozenset[int]().union(*(sources.get(value, ()) for value in operands))
        counted = [counters[value] for value in operands if value in counters]
        for result in operation.results:
            if numbers and not is_float(element_type(result)):
                sources[result] = numbers
            if operation.name == "stablehlo.iota":
                axis = operation.attributes["iota_dimension"].value
                counters[result] = result.type.get_dim_size(axis)
            elif counted:
                counters[result] = min(counted)


def _index_limits(
    operation: IrOperation, counters: dict[IrValue, int]
) -> Iterator[tuple[int, int]]:
    """Yield the operands that are indices, each with the size of the indexed dimension."""
    operands = list(operation.operands)
    match operation.name:
        case "stablehlo.gather":
            sizes = list(operation.attributes["slice_sizes"])
            yield 1, _least_room(operation, "dimension_numbers", operands[0], sizes)
        case "stablehlo.scatter":
            position = len(operands) // 2
            name = "scatter_dimension_numbers"
            yield position, _least_room(operation, name, operands[0], None)
        case "stablehlo.dynamic_slice":
            for axis, size in enumerate(operation.attributes["slice_sizes"]):
                yield axis + 1, operands[0].type.get_dim_size(axis) - size + 1
        case "stablehlo.dynamic_update_slice":
            for axis in range(len(operands) - 2):
                size = operands[1].type.get_dim_size(axis)
                yield axis + 2, operands[0].type.get_dim_size(axis) - size + 1
        case "stablehlo.compare":  # one-hot: labels against 0, 1, 2, …
            for position, compared in ((0, 1), (1, 0)):
                if operands[compared] in counters:
                    yield position, counters[operands[compared]]


def _least_room(
    operation: IrOperation, name: str, indexed: IrValue, sizes: list[int] | None
) -> int:
    """The smallest dimension that a gather or scatter indexes, less the size of its slices."""
    # Read as text: the bindings' names of these attributes differ between releases.
    match = _INDEX_MAP.search(str(operation.attributes[name]))
    axes = [int(axis) for axis in match[1].split(",")] if match and match[1].strip() else []
    lengths = sizes or [1] * len(indexed.type.shape)
    return min((indexed.type.get_dim_size(axis) - lengths[axis] + 1 for axis in axes), default=1)


# ---- operands that a program computes ----


def real_inputs(module: Module, arrays: Sequence[Any], platform: str) -> dict[Any, Inputs]:
    """The operands of the calls in `@main` when it runs on `arrays`, by signature and
    decomposition. The first of several equal calls counts."""
    main = functions(module.ir).get("main")
    block = None if main is None else body(main)
    if main is None or block is None:
        raise RunError("the module has no function @main with one block to run on the inputs")
    *operations, _ = (view.operation for view in block.operations)
    first: dict[Any, IrOperation] = {}
    for operation in operations:
        if operation.name == COMPOSITE:
            key = signature(operation), operation.attributes["decomposition"].value
            first.setdefault(key, operation)
    values = [value for operation in first.values() for value in operation.operands]
    program = extracted(module, list(block.arguments), operations, values)
    results = iter(compile_module(program, platform=platform)(*arrays))
    return {
        key: Inputs(tuple(next(results) for _ in operation.operands), "given")
        for key, operation in first.items()
    }
