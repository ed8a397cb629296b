"""The size of a module after functions are copied, to refuse large copies before they are made.

A function that uses another function twice, which uses a third function twice, and so on, doubles
at each level: a few lines of text can stand for more operations than any memory holds.
"""

from collections.abc import Callable, Container

from .bindings import nested_operations
from .errors import SizeError
from .ir_types import IrModule, IrOperation
from .symbols import executions, functions

LARGEST_RESULT = 1_000_000
"""The largest number of operations after copying. A larger module may still grow tenfold."""


def check_copies(
    module: IrModule,
    follows: Callable[[IrOperation], bool] = lambda _: True,
    roots: Container[str] | None = None,
    *,
    remedy: str,
) -> None:
    """Raise `SizeError` if copies of functions for each of their uses are too large. For the
    arguments see `executions`."""
    sizes = {name: len(nested_operations(f)) for name, f in functions(module).items()}
    times = executions(module, follows, roots)
    before, after = sum(sizes.values()), sum(max(times[name], 1) * sizes[name] for name in sizes)
    if after > max(LARGEST_RESULT, 10 * before):
        raise SizeError(
            f"the functions of the module use each other so often that its {before:,} operations"
            f" would become {after:,}; at most {LARGEST_RESULT:,} are made; {remedy}"
        )
