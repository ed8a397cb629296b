"""The functions of a module and their uses, for passes that move or rename functions."""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from .bindings import attributes, building, find_operations, ir, nested_operations, string_value
from .errors import SizeError, UnsupportedOperationError
from .ir_types import IrModule, IrOperation

COMPOSITE = "stablehlo.composite"
CALL = "func.call"
CUSTOM_CALL = "stablehlo.custom_call"


@dataclass(frozen=True)
class Uses:
    """The operations that refer to functions, by function name. Each list is in program order."""

    composites: dict[str, list[IrOperation]] = field(default_factory=dict)
    """`stablehlo.composite` operations, by decomposition."""
    calls: dict[str, list[IrOperation]] = field(default_factory=dict)
    """`func.call` operations, by callee."""
    others: frozenset[str] = frozenset()
    """Functions that other operations refer to. Passes do not change these."""


def functions(module: IrModule) -> dict[str, IrOperation]:
    """The functions of a module by name, in module order."""
    return {
        function_name(operation): operation.operation
        for operation in module.body.operations
        if operation.operation.name == "func.func"
    }


def function_name(function: IrOperation) -> str:
    """The symbol name of a function, without the @."""
    return string_value(function.attributes["sym_name"])


def enclosing_function(operation: IrOperation) -> str:
    """The name of the function that an operation is in; empty outside of functions."""
    while operation is not None and operation.operation.name != "func.func":
        operation = operation.parent
    return "" if operation is None else function_name(operation)


def is_private(function: IrOperation) -> bool:
    """Return whether the function is not visible outside the module."""
    visibility = attributes(function).get("sym_visibility")
    return visibility is not None and string_value(visibility) == "private"


def body(function: IrOperation) -> IrOperation | None:
    """The only block of a function; None for a declaration or for several blocks."""
    blocks = list(function.regions[0].blocks)
    return blocks[0] if len(blocks) == 1 else None


def uses(root: IrOperation) -> Uses:
    """The operations under `root` that refer to functions."""
    composites: dict[str, list[IrOperation]] = {}
    calls: dict[str, list[IrOperation]] = {}
    others: set[str] = set()

    for operation in nested_operations(root):
        name = operation.name
        if name == COMPOSITE:
            composites.setdefault(target(operation), []).append(operation)
        elif name == CALL:
            calls.setdefault(target(operation), []).append(operation)
        elif name == CUSTOM_CALL:
            others.update(map(string_value, attributes(operation).get("called_computations", ())))
    return Uses(composites, calls, frozenset(others))


def decompositions(module: IrModule, uses: Uses) -> list[str]:
    """The private functions that only composites refer to, in order of first use.

    The decompositions that public functions use come first, then the decompositions that those
    decompositions use, and so on.
    """
    by_name = functions(module)
    order: dict[str, None] = {}
    queue = [name for name, function in by_name.items() if not is_private(function)]
    visited = set(queue)
    for user in queue:  # grows while it is read
        for operation in walk_uses(by_name[user]):
            name = target(operation)
            if name in by_name and name not in visited:
                visited.add(name)
                queue.append(name)
                order[name] = None
    return [
        name
        for name in order
        if name in uses.composites and name not in uses.calls and name not in uses.others
    ]


def walk_uses(function: IrOperation) -> list[IrOperation]:
    """The composites and plain calls inside one function, in program order."""
    return find_operations(function, COMPOSITE, CALL)


def callees_first(module: IrModule) -> list[str]:
    """Function names in an order in which each function comes after every function it refers to.

    Raises:
        UnsupportedOperationError: functions refer to each other in a cycle.
    """
    by_name = functions(module)
    refers = {
        name: [t for t in map(target, walk_uses(function)) if t in by_name]
        for name, function in by_name.items()
    }
    try:
        return list(TopologicalSorter(refers).static_order())
    except CycleError as error:
        name, following, *_ = error.args[1]
        raise UnsupportedOperationError(
            f"@{name} and @{following} refer to each other in a cycle; "
            "StableHLO programs cannot recurse"
        ) from None


LARGEST_COUNT = 2**63
"""The largest number of occurrences of a function's body that is counted."""


def executions(
    module: IrModule,
    follows: Callable[[IrOperation], bool] = lambda _: True,
    roots: Container[str] | None = None,
) -> dict[str, int]:
    """The number of times that each function's body occurs, after inlining into other functions.

    Args:
        follows: returns whether the function that a composite or call refers to is inlined.
        roots: the functions that occur by themselves; by default the public functions.

    Raises:
        SizeError: a body occurs more often than any program can run it.
        UnsupportedOperationError: functions refer to each other in a cycle.
    """
    by_name = functions(module)
    times = {
        name: int(not is_private(function) if roots is None else name in roots)
        for name, function in by_name.items()
    }
    for name in reversed(callees_first(module)):
        for operation in walk_uses(by_name[name]) if times[name] else ():
            callee = target(operation)
            if callee in times and follows(operation):
                times[callee] += times[name]
                if times[callee] > LARGEST_COUNT:
                    raise SizeError(
                        f"@{callee} occurs more than {LARGEST_COUNT:,} times once everything is"
                        " inlined, because functions use each other many times over; no program"
                        " can run that"
                    )
    return times


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
    arguments see `executions`.

    A function that uses another function twice, which uses a third function twice, and so on,
    doubles at each level: a few lines of text can stand for more operations than any memory holds.
    """
    sizes = {name: len(nested_operations(f)) for name, f in functions(module).items()}
    times = executions(module, follows, roots)
    before, after = sum(sizes.values()), sum(max(times[name], 1) * sizes[name] for name in sizes)
    if after > max(LARGEST_RESULT, 10 * before):
        raise SizeError(
            f"the functions of the module use each other so often that its {before:,} operations"
            f" would become {after:,}; at most {LARGEST_RESULT:,} are made; {remedy}"
        )


def rename(function: IrOperation, name: str, users: Iterable[IrOperation] = ()) -> None:
    """Give a function a new name, and point the composites in `users` at it."""
    function.attributes["sym_name"] = ir().StringAttr.get(name, function.context)
    retarget(users, name)


def retarget(composites: Iterable[IrOperation], decomposition: str) -> None:
    """Point composites at another decomposition."""
    for operation in composites:
        symbol = ir().FlatSymbolRefAttr.get(decomposition, operation.context)
        operation.attributes["decomposition"] = symbol


def make_private(function: IrOperation) -> None:
    """Make a function invisible outside its module."""
    function.attributes["sym_visibility"] = ir().StringAttr.get("private", function.context)


class Namer:
    """Returns free symbol names, like MLIR: `base`, then `base_0`, `base_1`, …"""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}  # keeps the time linear for many names with one base

    def __call__(self, base: str) -> str:
        name = base
        while name in self._taken:
            number = self._next.get(base, 0)
            self._next[base] = number + 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


def target(operation: IrOperation) -> str:
    """The name of the function that a composite or a call refers to."""
    key = "decomposition" if operation.name == COMPOSITE else "callee"
    return string_value(operation.attributes[key])


def keep_arguments(function: IrOperation, order: Sequence[int]) -> None:
    """Keep only the arguments of a function whose numbers `order` lists, in that order. The other
    arguments must be unused."""
    block = body(function)
    assert block is not None
    old = list(block.arguments)
    with building(function.context):
        new = [block.add_argument(old[index].type, old[index].location) for index in order]
        for index, argument in zip(order, new, strict=True):
            old[index].replace_all_uses_with(argument)
        for index in reversed(range(len(old))):
            block.erase_argument(index)
        if "arg_attrs" in function.attributes:
            attributes = function.attributes["arg_attrs"]
            function.attributes["arg_attrs"] = ir().ArrayAttr.get([attributes[i] for i in order])
    update_type(function)


def update_type(function: IrOperation) -> None:
    """Give a function the types of its arguments and returned values."""
    block = body(function)
    assert block is not None
    *_, terminator = block.operations
    with building(function.context):
        type_ = ir().FunctionType.get(
            [argument.type for argument in block.arguments],
            [value.type for value in terminator.operands],
        )
        function.attributes["function_type"] = ir().TypeAttr.get(type_)
