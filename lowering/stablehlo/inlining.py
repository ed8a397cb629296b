"""Replacing an operation by the body of a function, a step that several passes share.

MLIR's own `inline` pass does not inline `func.call` in jaxlib (0.7.1 to 0.12.0), which registers
no inliner extension for the func dialect.
"""

from collections.abc import Sequence

from .bindings import IrOperation, IrValue


def inlined(
    before: IrOperation, function: IrOperation, operands: Sequence[IrValue]
) -> list[IrValue]:
    """Move the body of `function` before an operation, and return its results for these operands.

    Moving keeps the values that nested regions capture, without a map from old to new values. The
    empty function is to be erased.
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


def inline_call(call: IrOperation, function: IrOperation, *, last_use: bool) -> None:
    """Replace a call by the body of `function`.

    On the last use, the body itself is moved and the empty function is erased. Otherwise a copy is
    moved.
    """
    source = function if last_use else function.clone(ip=False)
    results = inlined(call, source, call.operands)
    for result, value in zip(call.results, results, strict=True):
        result.replace_all_uses_with(value)
    call.erase()
    if last_use:
        function.erase()
