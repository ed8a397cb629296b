"""Whose the instructions of a recorded step are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from composites.element_types import BY_NAME
from lowering.emission.hlo_proto import ELEMENT_TYPE_NAMES
from lowering.hlo.work import work_of
from lowering.suggestion.functions import LOSS
from lowering.suggestion.recording import Recorded


@dataclass(frozen=True, slots=True)
class Amount:
    """Instructions outside composites, and the bytes that they read and write."""

    instructions: int = 0
    bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.instructions + other.instructions, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class Attribution:
    """The work of a step, by the number of the call that it comes from."""

    recorded: Recorded
    work: Mapping[int | None, Amount]
    """None: instructions that come from no call."""
    products: Mapping[int | None, int]
    composites: Mapping[int | None, int]
    """By the invocation of a function that they are made in. None: in a backward, mostly."""
    callers: Mapping[int, frozenset[int]]
    """Of each call, the invocations of functions that it is in."""

    @property
    def outside(self) -> Amount:
        return total(self.work.values())

    def operators(self) -> dict[str, tuple[int, ...]]:
        """The calls with work, by operator."""
        found: dict[str, list[int]] = {}
        for number in self.work:
            if number is not None:
                found.setdefault(self.recorded.calls.made[number].operator, []).append(number)
        return {operator: tuple(numbers) for operator, numbers in found.items()}

    def functions(self) -> dict[str, FunctionWork]:
        """The functions that have work, by target."""
        found: dict[str, FunctionWork] = {}
        invocations = self.recorded.calls.functions.invocations
        for n, invocation in enumerate(invocations):
            target = invocation.function.target
            found.setdefault(target, FunctionWork(target)).invocations.add(n)
        for number in {*self.work, *self.products} - {None}:
            assert number is not None
            for target in {invocations[n].function.target for n in self.callers[number]}:
                found[target].calls.add(number)
        within = self.recorded.calls.functions.within
        for made_in, composites in self.composites.items():
            for target in {invocations[outer].function.target for outer in within(made_in)}:
                found[target].composites += composites
        for number, products in self.products.items():
            path = () if number is None else within(self.recorded.calls.made[number].invocation)
            in_layer, counted = False, set[str]()
            for target in (invocations[n].function.target for n in path):
                if target not in counted:
                    counted.add(target)
                    found[target].products += products
                    found[target].of_layers += products * in_layer
                in_layer = in_layer or target.endswith(".forward")
        return {target: function for target, function in found.items() if function.calls}

    def of(self, calls: Iterable[int], without: Collection[int] = ()) -> Amount:
        """The work of calls."""
        return total(self.work.get(n, Amount()) for n in calls if n not in without)


@dataclass(slots=True)
class FunctionWork:
    """A function, its invocations, and the calls of operators that are made in them."""

    target: str
    invocations: set[int] = field(default_factory=set)
    calls: set[int] = field(default_factory=set)
    products: int = 0
    of_layers: int = 0
    """The products of modules that it calls."""
    composites: int = 0
    """Those that are made in the forward."""


def total(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, Amount())


def attribute(recorded: Recorded) -> Attribution:
    """Say whose the instructions of a step are. What makes a loss of the module's result is left
    out."""
    functions = recorded.calls.functions
    callers = {
        number: frozenset(functions.within(call.invocation))
        for number, call in enumerate(recorded.calls.made)
    }
    of_loss = {
        number
        for number, within in callers.items()
        if any(functions.invocations[n].function.target == LOSS for n in within)
    }
    work: dict[int | None, Amount] = {}
    products: Counter[int | None] = Counter()
    composites: Counter[int | None] = Counter()
    for item in work_of(recorded.module):
        number = recorded.call_of(item.part_of)
        if number in of_loss:
            continue
        if item.is_composite:
            composites[recorded.invocation_of(item.part_of)] += 1
        elif item.is_product:
            products[number] += 1
        else:
            moved = sum(size_of(each.shape) for each in (item.instruction, *item.operands))
            work[number] = work.get(number, Amount()) + Amount(1, moved)
    return Attribution(recorded, work, products, composites, callers)


def size_of(shape: object) -> int:
    """Bytes of a value, by its HLO shape."""
    parts = list(shape.tuple_shapes)  # type: ignore[attr-defined]
    if parts:
        return sum(map(size_of, parts))
    name = ELEMENT_TYPE_NAMES.get(shape.element_type)  # type: ignore[attr-defined]
    if name is None:
        return 0
    return int(prod(shape.dimensions)) * _width(name)  # type: ignore[attr-defined]


def _width(element_type: str) -> int:
    """Bytes of an element; those of less than a byte take one."""
    if element_type == "i1":
        return 1
    bits = "".join(c for c in BY_NAME[element_type].numpy.partition("_")[0] if c.isdigit())
    return max(int(bits) // 8, 1)
