"""Reads recordings of one program, at several sizes, side by side.

    batch=5: %1 = stablehlo.add %arg0, %0 : tensor<5x4xf32>
    batch=7: %1 = stablehlo.add %arg0, %0 : tensor<7x4xf32>
        =>  one operation, whose result has the dimensions (5, 7), (4, 4)

All recordings must have the same operations on the same operands. Constants are an exception: they
are compared where they are read, because equal ones are written once, and which are equal depends
on the sizes. Nothing is changed here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..bindings import IrOperation, IrValue, attributes, defining_operation
from ..composites import composite_name
from ..errors import DynamicSizeError
from ..symbols import CALL, COMPOSITE, body
from .expressions import Values

CONSTANT = "stablehlo.constant"

Together: TypeAlias = tuple[IrOperation, ...]
"""What is one operation, in each recording."""

# Attributes that may differ: they hold sizes, name functions, or repeat a type.
_WITH_SIZES = {
    "stablehlo.slice": ("start_indices", "limit_indices"),
    "stablehlo.pad": ("edge_padding_low", "edge_padding_high"),
    "stablehlo.gather": ("slice_sizes",),
    "stablehlo.dynamic_slice": ("slice_sizes",),
    "stablehlo.reduce_window": ("window_dimensions", "padding"),
    COMPOSITE: ("decomposition",),
    CALL: ("callee",),
}
_REPEATS_A_TYPE = "xla_shape"


@dataclass(frozen=True)
class Aligned:
    """One operation of the program."""

    operations: Together
    outermost: IrOperation
    """The operation of the function's own block, in the first recording, that it is or is in."""
    constants: Mapping[int, Together]
    """Operands that are constants, by position."""
    operands: tuple[tuple[Values, ...], ...]
    """The dimensions of each operand. They are read before the first recording is rewritten."""
    results: tuple[tuple[Values, ...], ...]
    """The dimensions of each result."""

    @property
    def first(self) -> IrOperation:
        """The operation in the first recording."""
        return self.operations[0]

    @property
    def name(self) -> str:
        return str(self.first.name)

    @property
    def is_outermost(self) -> bool:
        return bool(self.first == self.outermost)

    @property
    def label(self) -> str:
        """What messages call it: composites by their own name."""
        return composite_name(self.first) if self.name == COMPOSITE else self.name


@dataclass(frozen=True)
class AlignedFunction:
    """A function of the program."""

    functions: Together
    arguments: tuple[tuple[IrValue, ...], ...]
    """Arguments of the function and of blocks in it, in each recording."""
    operations: tuple[Aligned, ...]
    """In program order, without constants."""


def dimensions(values: Sequence[IrValue]) -> tuple[Values, ...]:
    """The sizes of each dimension of a tensor in all recordings; empty for what is no tensor."""
    if not hasattr(values[0].type, "shape"):
        return ()
    return tuple(zip(*(value.type.shape for value in values), strict=True))


def align(functions: Together, recordings: Sequence[str]) -> AlignedFunction:
    """Read a function in all recordings side by side.

    Args:
        recordings: what messages call each, such as `batch=5`.

    Raises:
        DynamicSizeError: the functions differ in more than sizes.
    """
    return _Reader(functions, recordings).read()


class _Reader:
    def __init__(self, functions: Together, recordings: Sequence[str]) -> None:
        self.functions = functions
        self.recordings = recordings
        self.numbers: list[dict[IrValue, int]] = [{} for _ in functions]
        self.arguments: list[tuple[IrValue, ...]] = []
        self.operations: list[Aligned] = []

    def read(self) -> AlignedFunction:
        blocks = [body(function) for function in self.functions]
        if any(block is None for block in blocks):
            raise DynamicSizeError(
                f"@{self.functions[0].attributes['sym_name']} has no body, or several blocks"
            )
        self._block(blocks, None)
        return AlignedFunction(self.functions, tuple(self.arguments), tuple(self.operations))

    def _block(self, blocks: Sequence[IrOperation], outermost: IrOperation | None) -> None:
        arguments = [list(block.arguments) for block in blocks]
        self._same([len(found) for found in arguments], "a block with other arguments")
        for values in zip(*arguments, strict=True):
            self._same([_element(value) for value in values], "an argument")
            self._number(values)
            self.arguments.append(values)
        rows = [
            [item.operation for item in block.operations if item.operation.name != CONSTANT]
            for block in blocks
        ]
        for operations in zip(*rows, strict=False):
            self._same([item.name for item in operations], "operation")
            self._operation(operations, outermost or operations[0])
        self._same([len(row) for row in rows], "a block with another number of operations:")

    def _operation(self, operations: Together, outermost: IrOperation) -> None:
        label = operations[0].name
        constants: dict[int, Together] = {}
        self._same([len(item.operands) for item in operations], f"operands of {label}:")
        for position, values in enumerate(zip(*(o.operands for o in operations), strict=True)):
            found = tuple(map(_constant, values))
            if all(item is not None for item in found):
                constants[position] = tuple(item for item in found if item is not None)
            else:
                read = [self.numbers[n].get(value, -1) for n, value in enumerate(values)]
                self._same(read, f"operand {position} of {label}: value", shown=False)
        self._attributes(operations)
        results = list(zip(*(o.results for o in operations), strict=True))
        for values in results:
            self._same([_element(value) for value in values], f"result of {label}:")
            self._number(values)
        operands = zip(*(o.operands for o in operations), strict=True)
        self.operations.append(
            Aligned(
                tuple(operations),
                outermost,
                constants,
                tuple(map(dimensions, operands)),
                tuple(map(dimensions, results)),
            )
        )
        for regions in zip(*(o.regions for o in operations), strict=True):
            for blocks in zip(*(region.blocks for region in regions), strict=True):
                self._block(blocks, outermost)

    def _attributes(self, operations: Together) -> None:
        name = operations[0].name
        may_differ = (*_WITH_SIZES.get(name, ()), _REPEATS_A_TYPE)
        written = [
            {key: str(held) for key, held in attributes(o).items() if key not in may_differ}
            for o in operations
        ]
        if all(given == written[0] for given in written):
            return
        key = next(k for given in written for k in given if not _equal([w.get(k) for w in written]))
        label = composite_name(operations[0]) if name == COMPOSITE else name
        other = next(n for n, given in enumerate(written) if given.get(key) != written[0].get(key))
        raise DynamicSizeError(
            f"the attribute {key} of {label} is {written[0].get(key)} at {self.recordings[0]} and"
            f" {written[other].get(key)} at {self.recordings[other]}; an attribute cannot vary, so"
            " keep the dimension that it depends on fixed",
            label if name == COMPOSITE else None,
        )

    def _number(self, values: Sequence[IrValue]) -> None:
        for numbers, value in zip(self.numbers, values, strict=True):
            numbers[value] = len(numbers)

    def _same(self, found: Sequence[object], what: str, *, shown: bool = True) -> None:
        if _equal(found):
            return
        other = next(number for number, item in enumerate(found) if item != found[0])
        details = f" {found[0]} and {found[other]}" if shown else " another"
        raise DynamicSizeError(
            f"the program is a different one at {self.recordings[0]} than at"
            f" {self.recordings[other]} ({what}{details}); the module must run the same operators"
            " at all sizes, so remove what depends on the size, or keep the dimension fixed"
        )


def _equal(found: Sequence[object]) -> bool:
    return all(item == found[0] for item in found)


def _element(value: IrValue) -> str:
    """What must be the same in all recordings about a value's type."""
    type_ = value.type
    return f"{type_.element_type}, rank {type_.rank}" if hasattr(type_, "shape") else str(type_)


def _constant(value: IrValue) -> IrOperation | None:
    found = defining_operation(value)
    return found if found is not None and found.name == CONSTANT else None


def called(aligned: Aligned) -> Iterator[str]:
    """The functions that a composite or a call refers to, in each recording."""
    key = "decomposition" if aligned.name == COMPOSITE else "callee"
    for operation in aligned.operations:
        yield str(operation.attributes[key].value)
