"""Lists of tensors among the operands of a call: one operand of the composite for each tensor.

A hook receives lists, the composite takes their tensors in order, and its decomposition receives
lists again.
"""

from collections.abc import Iterator, Sequence
from typing import Any

Groups = tuple[tuple[type, int] | None, ...]
"""For each operand of an entry: type and length of a list; None for a tensor or an absent operand.
"""


def ungrouped(operands: Sequence[Any]) -> tuple[tuple[Any, ...], Groups]:
    """The operands of the composite, and the lists among the arguments."""
    flat: list[Any] = []
    groups: list[tuple[type, int] | None] = []
    for operand in operands:
        if isinstance(operand, list | tuple):
            flat.extend(operand)
            groups.append((tuple if isinstance(operand, tuple) else list, len(operand)))
        else:
            flat.append(operand)
            groups.append(None)
    return tuple(flat), tuple(groups)


def regrouped(values: Sequence[Any], groups: Groups) -> Iterator[Any]:
    """Values of the entry's operands: those of the composite's operands, grouped into lists."""
    rest = iter(values)
    for group in groups:
        if group is None:
            yield next(rest)
        else:
            kind, length = group
            yield kind([next(rest) for _ in range(length)])


def operand_names(names: Sequence[str], groups: Groups) -> tuple[str, ...]:
    """The name of the argument that each operand of the composite belongs to."""
    counted = zip(names, groups, strict=True)
    return tuple(name for name, group in counted for _ in range(1 if group is None else group[1]))
