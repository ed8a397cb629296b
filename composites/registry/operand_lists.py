"""Lists of tensors among the operands of an entry, as far as annotations and schemas tell."""

from composites.registry.model import Composite
from composites.registry.operators import Operator


def is_list(operand: str, operator: Operator | None) -> bool:
    """Return whether an operand is known to be a list of tensors."""
    argument = None if operator is None else operator.argument(operand)
    return argument is not None and argument.is_list


def is_optional(operand: str, operator: Operator) -> bool:
    """Return whether an operand may be absent. A path such as `self.weight` always may."""
    argument = operator.argument(operand)
    return argument is None or argument.optional


def has_segment_sizes(entry: Composite, operator: Operator | None) -> bool:
    """Return whether the composite says how many of its operands belong to each argument.

    It does if the number of all operands is ambiguous: beside a list there is another list or an
    optional tensor, or the list itself may be absent.
    """
    if operator is None:
        return False
    lists = [name for name in entry.operands if is_list(name, operator)]
    optional = [name for name in entry.operands if is_optional(name, operator)]
    return bool(lists) and (len({*lists, *optional}) > 1 or lists[0] in optional)


def may_have_segment_sizes(entry: Composite, operator: Operator) -> bool:
    """Return whether operands without annotations could be lists, so that each call decides."""
    return len(entry.operands) > 1 and any(
        argument is None or argument.kind == "other"
        for argument in map(operator.argument, entry.operands)
    )
