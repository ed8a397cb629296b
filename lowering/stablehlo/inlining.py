"""Replacing an operation by the body of a function, a step that several passes share.

MLIR's own `inline` pass does not inline `func.call` in jaxlib (0.7.1 to 0.12.0), which registers
no inliner extension for the func dialect.
"""

from .bindings import IrOperation, parse_text


def inline_call(call: IrOperation, function: IrOperation, *, last_use: bool) -> None:
    """Replace a call by the body of `function`.

    On the last use, the body itself is moved and the empty function is erased. Otherwise a copy is
    moved. Moving keeps the values that nested regions capture, without a map from old to new
    values.
    """
    source = function if last_use else function.clone(ip=False)
    block = source.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, call.operands, strict=True):
        argument.replace_all_uses_with(operand)
    *operations, terminator = (operation.operation for operation in block.operations)
    for operation in operations:
        operation.move_before(call)
    for result, value in zip(call.results, terminator.operands, strict=True):
        result.replace_all_uses_with(value)
    call.erase()
    terminator.erase()
    if last_use:
        function.erase()


def inline_text(operation: IrOperation, text: str, source: str) -> None:
    """Replace an operation by the body of a function of its operands, given as MLIR text. `source`
    is the name that errors refer to."""
    template = parse_text(text, source, operation.context)
    inline_call(operation, template.body.operations[0].operation, last_use=True)
