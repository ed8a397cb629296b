"""What a backward may take besides gradients: the names that `saves` lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_RESULT = re.compile(r"result(\.[1-9][0-9]*)?")


def problems_of_saves(saves: Sequence[str], operands: Sequence[str]) -> Iterator[str]:
    """What is wrong with names in `saves`. Further values, which have a function, are not among
    them.

    Args:
        operands: those of the composite.
    """
    for name in saves:
        if name not in operands and not _RESULT.fullmatch(name):
            yield (
                f"saves: {name!r} is neither an operand ({', '.join(operands) or 'there is none'})"
                " nor a result (result, result.1, …)"
            )
