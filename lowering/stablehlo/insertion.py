"""Inserting, replacing and erasing operations: steps that several passes share."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from .bindings import attributes, building, defining_operation, ir, splat_number
from .ir_types import IrAttribute, IrOperation, IrType, IrValue


def inserted(
    before: IrOperation, name: str, result: IrType, *operands: IrValue, **attributes: IrAttribute
) -> IrValue:
    """The result of a new operation in front of `before`; see `created`."""
    return created(before, name, [result], operands, attributes).results[0]


def created(
    before: IrOperation,
    name: str,
    results: Sequence[IrType],
    operands: Sequence[IrValue],
    attributes: Mapping[str, IrAttribute],
    *,
    regions: int = 0,
) -> IrOperation:
    """A new operation in front of `before`, with the same location."""
    with building(before.context):
        return ir().Operation.create(
            name,
            results=[*results],
            operands=[*operands],
            attributes=dict(attributes),
            regions=regions,
            loc=before.location,
            ip=ir().InsertionPoint(before),
        )


def replace_operation(
    old: IrOperation,
    name: str,
    attributes: Mapping[str, IrAttribute],
    operands: Sequence[IrValue] | None = None,
) -> None:
    """Replace an operation by an operation with results of the same types and, by default, the same
    operands."""
    types = [result.type for result in old.results]
    new = created(old, name, types, old.operands if operands is None else operands, attributes)
    replace_by(old, *new.results)


def remade(before: IrOperation, operands: Sequence[IrValue], element: IrType) -> IrValue:
    """The result of the same operation of other operands, whose result has this element type."""
    kept = {name: value for name, value in attributes(before).items() if name != "xla_shape"}
    return inserted(
        before, before.name, resized(before.results[0].type, element=element), *operands, **kept
    )


def replace_by(old: IrOperation, *values: IrValue) -> None:
    """Replace the results of an operation by other values, and erase it."""
    for before, after in zip(old.results, values, strict=True):
        before.replace_all_uses_with(after)
    old.erase()


def inlined(
    before: IrOperation, function: IrOperation, operands: Sequence[IrValue]
) -> list[IrValue]:
    """Move the body of `function` before an operation, and return its results for `operands`.

    Moving keeps the values that nested regions capture, without a map from old to new values. The
    caller erases the empty function. MLIR's own `inline` pass does not inline `func.call` in jaxlib
    (0.7.1 to 0.12.0), which registers no inliner extension for the func dialect.
    """
    block = function.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, operands, strict=True):
        argument.replace_all_uses_with(operand)
    *operations, terminator = (operation.operation for operation in block.operations)
    for operation in operations:
        operation.move_before(before)
    results = [*terminator.operands]
    terminator.erase()
    return results


def erase_unread(values: Iterable[IrValue], names: Collection[str]) -> None:
    """Erase the operations that made unread `values`, and then those that made their operands.

    Args:
        names: operations without effects that may be erased, besides constants and conversions.
    """
    erasable = {"stablehlo.convert", "stablehlo.constant", *names}
    queue, erased = list(values), set()
    while queue:
        value = queue.pop()
        operation = None if value in erased else defining_operation(value)
        if operation is None or operation.name not in erasable:
            continue
        if not any(True for result in operation.results for _ in result.uses):
            queue += operation.operands
            erased |= {*operation.results}
            operation.erase()


def behind(value: IrValue, name: str, type_: IrType) -> IrValue:
    """The result of a new operation on a value, behind the operation that produces the value. All
    other users of the value read the result instead."""
    producer = defining_operation(value)
    before = value.owner.operations[0].operation if producer is None else producer
    result = inserted(before, name, type_, value)
    operation = result.owner.operation
    if producer is not None:
        operation.move_after(producer)
    value.replace_all_uses_except(result, operation)
    return result


def converted(before: IrOperation, value: IrValue, element: IrType) -> IrValue:
    """A value with another element type."""
    return inserted(before, "stablehlo.convert", resized(value.type, element=element), value)


def constant(before: IrOperation, type_: IrType, number: float) -> IrValue:
    """A constant whose elements all equal a number of the element type."""
    kinds, element = ir(), type_.element_type
    with building(before.context):
        if isinstance(element, kinds.IntegerType):
            scalar = kinds.IntegerAttr.get(element, int(number))
        else:
            scalar = kinds.FloatAttr.get(element, float(number))
        value = kinds.DenseElementsAttr.get_splat(type_, scalar)
    return inserted(before, "stablehlo.constant", type_, value=value)


def filled(before: IrOperation, type_: IrType, splat: IrValue) -> IrValue | None:
    """A constant of another shape with the number that all elements of a constant `splat` equal;
    None for other values, and for complex numbers."""
    if splat_number(splat) is None:
        return None
    number = attributes(splat.owner.operation)["value"].get_splat_value()
    value = ir().DenseElementsAttr.get_splat(type_, number)
    return inserted(before, "stablehlo.constant", type_, value=value)


def attribute(operation: IrOperation, text: str) -> IrAttribute:
    """Parse the text of an attribute."""
    return ir().Attribute.parse(text, operation.context)


def integers(operation: IrOperation, numbers: Sequence[int]) -> IrAttribute:
    """An attribute such as `array<i64: 1, 2>`."""
    return ir().DenseI64ArrayAttr.get([*numbers], operation.context)


def integer_type(operation: IrOperation, width: int) -> IrType:
    """A signless integer type, such as `i32`."""
    return ir().IntegerType.get_signless(width, operation.context)


def resized(
    type_: IrType, sizes: Sequence[int] | None = None, element: IrType | None = None
) -> IrType:
    """A tensor type with other sizes, or another element type."""
    element = type_.element_type if element is None else element
    with building(type_.context):
        if sizes is not None:
            return ir().RankedTensorType.get([*sizes], element)
        if not type_.has_rank:
            return ir().UnrankedTensorType.get(element)
        return ir().RankedTensorType.get(type_.shape, element, type_.encoding)
