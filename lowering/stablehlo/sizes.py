"""The size of a module where functions are copied, to refuse before the copies are made.

A function that uses another one twice, which uses a third one twice, and so on, doubles at each
level: a few lines of text can stand for more operations than any memory holds.
"""

from collections.abc import Callable, Container

from .bindings import nested_operations
from .errors import SizeError
from .ir_types import IrModule, IrOperation
from .symbols import executions, functions

LARGEST_RESULT = 1_000_000
"""Operations that copying may lead to. A larger module may still become ten times as large."""


def check_copies(
    module: IrModule,
    follows: Callable[[IrOperation], bool] = lambda _: True,
    roots: Container[str] | None = None,
    *,
    remedy: str,
) -> None:
    """Raise `SizeError` if a copy of a function for each of its uses is too much. The arguments are
    those of `executions`."""
    own = {name: len(nested_operations(each)) for name, each in functions(module).items()}
    times = executions(module, follows, roots)
    before, after = sum(own.values()), sum(max(times[name], 1) * own[name] for name in own)
    if after > max(LARGEST_RESULT, 10 * before):
        raise SizeError(
            f"the functions of the module use each other so often that its {before:,} operations"
            f" would become {after:,}; at most {LARGEST_RESULT:,} are made; {remedy}"
        )
