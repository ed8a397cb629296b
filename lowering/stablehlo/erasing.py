"""Erasing unread operations, a step that several passes share."""

from collections.abc import Collection, Iterable

from .bindings import IrValue, defining_operation


def erase_unread(values: Iterable[IrValue], names: Collection[str]) -> None:
    """Erase the operations that made these values if they are unread, and then their operands'.

    Args:
        names: operations without an effect that may go; constants and conversions may always.
    """
    erasable = {"stablehlo.convert", "stablehlo.constant", *names}
    queue, erased = list(values), set()
    while queue:
        value = queue.pop()
        if value in erased or any(True for _ in value.uses):
            continue
        operation = defining_operation(value)
        if operation is not None and operation.name in erasable:
            queue += operation.operands
            erased.add(value)
            operation.erase()
