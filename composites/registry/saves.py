"""Check `saves` and `intermediates`, the values that a backward takes besides gradients."""

import re
from collections.abc import Iterator, Sequence

from composites.registry.model import Composite

INTERMEDIATE = re.compile(r"[^\W\d]\w*")
_RESULT = re.compile(r"result(\.[1-9][0-9]*)?")


def problems_of_saves(saves: Sequence[str], operands: Sequence[str]) -> Iterator[str]:
    """Yield problems of names under `saves`. Values with a function of their own are not checked.

    Args:
        operands: the operands of the composite.
    """
    for name in saves:
        if name not in operands and not _RESULT.fullmatch(name):
            yield (
                f"saves: {name!r} is neither an operand ({', '.join(operands) or 'there is none'})"
                " nor a result (result, result.1, …)"
            )


def problems_of_intermediates(names: Sequence[str], entry: Composite) -> Iterator[str]:
    """Yield problems of names under `intermediates`.

    Args:
        entry: the entry, whose `saved` includes the names.
    """
    used = [*entry.operands, *(name for name, target in entry.saved if target is not None)]
    used += [attribute.argument or "" for attribute in entry.attributes]
    for name in dict.fromkeys(names):
        if not INTERMEDIATE.fullmatch(name):
            yield f"intermediates: {name!r} is not the name of a value, such as gates"
        elif names.count(name) > 1:
            yield f"intermediates: {name!r} is listed twice"
        elif name in used or _RESULT.fullmatch(name):
            yield f"intermediates: {name!r} has another meaning in this entry; choose another name"
