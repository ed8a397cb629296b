"""Lists of tensors among the operands of an entry, according to annotations and schemas."""

from composites.registry.model import Composite
from composites.registry.operators import Operator


def is_list(operand: str, operator: Operator | None) -> bool:
    """Return True if the signature says that an operand is a list of tensors."""
    argument = None if operator is None else operator.argument(operand)
    return argument is not None and argument.is_list


def is_optional(operand: str, operator: Operator) -> bool:
    """Return True if an operand may be absent. A path such as `self.weight` always may."""
    argument = operator.argument(operand)
    return argument is None or argument.optional


def has_segment_sizes(entry: Composite, operator: Operator | None) -> bool:
    """Return True if the composite has the attribute `operand_segment_sizes`.

    It has the attribute if the number of all operands is ambiguous: there is another list or an
    optional tensor besides a list, or the list itself may be absent.
    """
    if operator is None:
        return False
    lists = [name for name in entry.operands if is_list(name, operator)]
    optional = [name for name in entry.operands if is_optional(name, operator)]
    return bool(lists) and (len({*lists, *optional}) > 1 or lists[0] in optional)


def may_have_segment_sizes(entry: Composite, operator: Operator) -> bool:
    """Return True if operands without annotations could be lists, so that each call decides."""
    return len(entry.operands) > 1 and any(
        argument is None or argument.kind == "other"
        for argument in map(operator.argument, entry.operands)
    )
