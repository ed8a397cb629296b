"""What a forward saves for its backward besides operands and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from composites.errors import LoweringError
from composites.functions import find_function
from composites.intermediates import Named
from composites.registry.model import Composite
from lowering.dispatch.call import CallSpec


def further_values(
    entry: Composite,
    spec: CallSpec,
    operands: Sequence[Any],
    named: Sequence[Named],
) -> list[Any]:
    """The further results of the forward, in the order of `entry.saved`.

    Args:
        named: what the decomposition named for these operands.

    Raises:
        LoweringError: the decomposition did not name a value that the entry lists, gave the name
            to two values, or wrote to the value later.
    """
    return [
        _intermediate(entry, name, named)
        if target is None
        else spec.call(find_function(target), *operands)
        for name, target in entry.saved
    ]


def _intermediate(entry: Composite, name: str, named: Sequence[Named]) -> Any:
    found = [each for each in named if each.name == name]
    if len(found) == 1 and not found[0].is_written_to:
        return found[0].value
    if len(found) > 1:
        problem = f"it gives this name to {len(found)} values; give each a name of its own"
    elif found:
        problem = "it writes to this value later; name a copy, as value.clone()"
    else:
        others = ", ".join(dict.fromkeys(each.name for each in named)) or "none"
        problem = (
            f"it names no such value (it names {others}); call"
            f" composites.intermediate(value, {name!r}) in it"
        )
    function = entry.decomposition.target or next(iter(entry.functions), entry.decomposition)
    raise LoweringError(
        f"{entry.location}: {entry.qualified}: intermediates: {name!r} of {function}: {problem}"
    )
