"""fold_data_movement: join several operations that move data into one operation.

    %0 = broadcast_in_dim %b, dims = [1] : 16 -> 1x16
    %1 = broadcast_in_dim %0, dims = [0, 1] : 1x16 -> 3x16   =>   broadcast_in_dim %b, dims = [1]

    %c = constant dense<0.5> : tensor<f32>
    %2 = broadcast_in_dim %c, dims = [] : -> 3x16            =>   constant dense<0.5> : 3x16

A tracer writes every Python number as a constant that it broadcasts, and reshapes values that it
has reshaped. The results have the same bits.
"""

from collections.abc import Callable, Sequence

from ..bindings import attributes, building, find_operations, ir, made_by, splat_number
from ..data_movement import CONVERT
from ..in_place import in_place
from ..insertion import erase_unread, filled, inserted
from ..ir_types import IrModule, IrOperation, IrValue

_BROADCAST, _RESHAPE = "stablehlo.broadcast_in_dim", "stablehlo.reshape"
_TRANSPOSE, _CONSTANT = "stablehlo.transpose", "stablehlo.constant"
_MULTIPLY = "stablehlo.multiply"
_FILLING = (_BROADCAST, _RESHAPE, _TRANSPOSE)
_MOVES = (*_FILLING, CONVERT)


@in_place
def fold_data_movement(module: IrModule) -> None:
    """Join broadcasts of broadcasts, reshapes of reshapes and transposes of transposes, fill
    constants at once, and drop operations without effect: data movement to the operand's own type,
    and products by one.

    Operations of dynamic shape stay as they are.
    """
    replaced: list[IrValue] = []
    with building(module.context):
        for operation in find_operations(module.operation, *_MOVES, _MULTIPLY):
            if not all(map(_is_static, (*operation.operands, *operation.results))):
                continue
            replacement = _filled(operation) or _RULES[operation.name](operation)
            if replacement is not None:
                operation.results[0].replace_all_uses_with(replacement)
                replaced.append(operation.results[0])
                replaced.extend(operation.operands)
    erase_unread(replaced, (*_MOVES, _MULTIPLY, _CONSTANT))


def _is_static(value: IrValue) -> bool:
    return hasattr(value.type, "shape") and value.type.has_static_shape


def _broadcast(operation: IrOperation) -> IrValue | None:
    (operand,), (result,) = operation.operands, operation.results
    dimensions = _integers(operation, "broadcast_dimensions")
    if operand.type == result.type and dimensions == sorted(dimensions):
        return operand
    inner = made_by(operand, _BROADCAST)
    if inner is not None:
        chosen = [dimensions[n] for n in _integers(inner, "broadcast_dimensions")]
        return _repeated(operation, inner.operands[0], "broadcast_dimensions", chosen)
    return None


def _reshape(operation: IrOperation) -> IrValue | None:
    (operand,), (result,) = operation.operands, operation.results
    inner = made_by(operand, _RESHAPE, _BROADCAST)
    is_reshaped = inner is not None and (inner.name == _RESHAPE or _adds_ones(inner))
    source = inner.operands[0] if inner is not None and is_reshaped else operand
    if source.type == result.type:
        return source
    return _repeated(operation, source) if is_reshaped else None


def _adds_ones(operation: IrOperation) -> bool:
    """Return whether a broadcast adds dimensions of size one and nothing else."""
    dimensions = _integers(operation, "broadcast_dimensions")
    before, after = operation.operands[0].type.shape, operation.results[0].type.shape
    remaining = list(after)
    for dimension in sorted(set(range(len(after))) - set(dimensions), reverse=True):
        if after[dimension] != 1:
            return False
        del remaining[dimension]
    return dimensions == sorted(dimensions) and remaining == list(before)


def _transpose(operation: IrOperation) -> IrValue | None:
    (operand,) = operation.operands
    permutation = _integers(operation, "permutation")
    inner = made_by(operand, _TRANSPOSE)
    source = operand
    if inner is not None:
        source = inner.operands[0]
        permutation = [_integers(inner, "permutation")[n] for n in permutation]
    if permutation == sorted(permutation):
        return source
    return None if source is operand else _repeated(operation, source, "permutation", permutation)


def _convert(operation: IrOperation) -> IrValue | None:
    (operand,), (result,) = operation.operands, operation.results
    return operand if operand.type == result.type else None


def _multiply(operation: IrOperation) -> IrValue | None:
    for factor, value in (operation.operands, reversed(list(operation.operands))):
        if splat_number(factor) == 1:
            return value
    return None


_RULES: dict[str, Callable[[IrOperation], IrValue | None]] = {
    _BROADCAST: _broadcast,
    _RESHAPE: _reshape,
    _TRANSPOSE: _transpose,
    CONVERT: _convert,
    _MULTIPLY: _multiply,
}


def _integers(operation: IrOperation, name: str) -> list[int]:
    return list(ir().DenseI64ArrayAttr(attributes(operation)[name]))


def _filled(operation: IrOperation) -> IrValue | None:
    """A constant of the result's type, if the operand is a splat constant; None otherwise."""
    if operation.name not in _FILLING:
        return None
    return filled(operation, operation.results[0].type, operation.operands[0])


def _repeated(
    operation: IrOperation, operand: IrValue, name: str = "", numbers: Sequence[int] = ()
) -> IrValue:
    """The result of the same operation on another operand."""
    written = {name: ir().DenseI64ArrayAttr.get(list(numbers))} if name else {}
    return inserted(operation, operation.name, operation.results[0].type, operand, **written)
