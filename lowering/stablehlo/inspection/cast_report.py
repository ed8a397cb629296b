"""`casts`: every conversion between element types, its cost, and the operations around it."""

from collections import Counter
from dataclasses import dataclass

from ..bindings import defining_operation, find_operations, ir, location_name, users
from ..composites import composite_name
from ..data_movement import CONVERT
from ..dtypes import CastKind, byte_size, cast_kind
from ..ir_types import IrOperation, IrValue
from ..module import Module
from ..symbols import COMPOSITE, executions, functions
from .report import JsonReport


@dataclass(frozen=True)
class Cast:
    """One `stablehlo.convert`."""

    function: str
    """The function that contains the cast."""
    source: str
    """The source of the operand: an operation (`dot_general`), a composite (`ptxla.softmax`) or an
    argument (`%arg0`). If a frontend named the location, the name follows."""
    users: tuple[str, ...]
    """The operations and composites that read the result, each name once, sorted."""
    from_type: str
    """Element type of the operand, such as `bf16`."""
    to_type: str
    """Element type of the result."""
    shape: tuple[int | None, ...]
    """The sizes; None for a dynamic dimension."""
    kind: CastKind
    """The effect on values; see `dtypes.cast_kind`."""
    count: int
    """The number of such casts once everything is inlined into the public functions."""
    bytes: int
    """Bytes read and written by one occurrence. A dynamic dimension counts as 1."""
    total_bytes: int
    """count * bytes."""


@dataclass(frozen=True)
class CastReport(JsonReport):
    """The result of `casts`.

    Occurrences are counted as if every composite and call were inlined into the public functions. A
    cast in a region (a loop's body) counts once, however often it runs.
    """

    module: str
    """The module's symbol name."""
    count: int
    """Casts in the whole module."""
    bytes: int
    """Bytes that the casts read and write."""
    kinds: dict[CastKind, int]
    """Casts of each kind, most frequent first."""
    casts: tuple[Cast, ...]
    """The casts, sorted by bytes, largest first. Casts of equal size are in program order."""


def casts(module: Module) -> CastReport:
    """List the conversions between element types of a module, counted as in `CastReport`."""
    times = executions(module.ir)
    conversions = [
        _cast(convert, name, times[name])
        for name, function in functions(module.ir).items()
        for convert in find_operations(function, CONVERT)
    ]
    kinds: Counter[CastKind] = Counter()
    for cast in conversions:
        kinds[cast.kind] += cast.count
    return CastReport(
        module=module.name,
        count=sum(cast.count for cast in conversions),
        bytes=sum(cast.total_bytes for cast in conversions),
        kinds=dict(kinds.most_common()),
        casts=tuple(sorted(conversions, key=lambda cast: -cast.total_bytes)),
    )


def _cast(convert: IrOperation, function: str, count: int) -> Cast:
    operand, result = convert.operands[0], convert.results[0]
    from_type, to_type = str(operand.type.element_type), str(result.type.element_type)
    size = byte_size(operand.type) + byte_size(result.type)
    type_, axes = result.type, range(result.type.rank)
    return Cast(
        function=function,
        source=_source(operand),
        users=tuple(sorted({_label(user) for user in users(result)})),
        from_type=from_type,
        to_type=to_type,
        shape=tuple(None if type_.is_dynamic_dim(n) else type_.get_dim_size(n) for n in axes),
        kind=cast_kind(from_type, to_type),
        count=count,
        bytes=size,
        total_bytes=count * size,
    )


def _source(value: IrValue) -> str:
    operation = defining_operation(value)
    if operation is not None:
        label, location = _label(operation), operation.location
    else:
        argument = ir().BlockArgument(value)
        parent = argument.owner.owner.operation
        inside = "" if parent.name == "func.func" else f" of {_label(parent)}"
        label, location = f"%arg{argument.arg_number}{inside}", argument.location
    name = location_name(location)
    return f"{label} ({name})" if name else label


def _label(operation: IrOperation) -> str:
    if operation.name == COMPOSITE:
        return composite_name(operation)
    return str(operation.name).removeprefix("stablehlo.").removeprefix("func.")
