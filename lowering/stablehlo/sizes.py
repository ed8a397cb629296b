"""The size of a module where functions are copied, to refuse before the copies are made.

A function that uses another one twice, which uses a third one twice, and so on, doubles at each
level: a few lines of text can stand for more operations than any memory holds.
"""

from collections.abc import Container, Mapping

from .bindings import IrModule, IrOperation, walk
from .errors import SizeError
from .symbols import CALL, callees_first, executions, functions, target, walk_uses

LARGEST_RESULT = 1_000_000
"""Operations that copying may lead to. A larger module may still become ten times as large."""


def check_inlining(
    module: IrModule, inlined: Container[str], removed: Container[str], remedy: str
) -> None:
    """Raise `SizeError` if inlining the calls of these functions makes too many operations.

    `removed` are the functions that are gone afterwards.
    """
    by_name = functions(module)
    own = _own_operations(by_name)
    after: dict[str, int] = {}
    for name in callees_first(module):
        callees = (target(used) for used in walk_uses(by_name[name]) if used.name == CALL)
        after[name] = own[name] + sum(after[callee] for callee in callees if callee in inlined)
    _check(sum(n for name, n in after.items() if name not in removed), sum(own.values()), remedy)


def check_copies(module: IrModule, *, through: Container[str], remedy: str) -> None:
    """Raise `SizeError` if a copy of a function for each of its uses is too much.

    `through` are the names of the operations that use functions.
    """
    own = _own_operations(functions(module))
    times = executions(module, through=through)
    _check(sum(max(times[name], 1) * own[name] for name in own), sum(own.values()), remedy)


def _check(after: int, before: int, remedy: str) -> None:
    if after > max(LARGEST_RESULT, 10 * before):
        raise SizeError(
            f"the functions of the module use each other so often that its {before:,} operations"
            f" would become {_readable(after)}; at most {LARGEST_RESULT:,} are made; {remedy}"
        )


def _readable(number: int) -> str:
    """A number for people. Python does not print one of more than 4300 digits."""
    return f"{number:,}" if number < 10**18 else "more than 10^18"


def _own_operations(by_name: Mapping[str, IrOperation]) -> dict[str, int]:
    """The number of operations in each function."""
    return {name: _count(function) for name, function in by_name.items()}


def _count(function: IrOperation) -> int:
    number = 0

    def visit(_: IrOperation) -> None:
        nonlocal number
        number += 1

    walk(function, visit)
    return number
