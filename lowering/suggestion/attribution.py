"""The functions and operators that the instructions of a recorded step come from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from composites.element_types import BY_NAME
from lowering.emission.hlo_proto import ELEMENT_TYPE_NAMES
from lowering.hlo.work import work_of
from lowering.suggestion.functions import LOSS, Function
from lowering.suggestion.recording import Recorded

_BESIDE_PRODUCT = 8
"""Instructions for each product below which a function is mostly its products."""
_TENSORS = 8
"""The number of operands and results that halves a function's rank."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Instructions outside composites, and the bytes that they read and write."""

    instructions: int = 0
    bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.instructions + other.instructions, self.bytes + other.bytes)


@dataclass(slots=True, eq=False)
class Source:
    """An operator, or a function with the operators that are called in it and in their backward.

    An entry for a function is worth most if it has many instructions, few tensors to take and to
    return, and few products: a norm, a rotary embedding, a gate, a scan. A whole layer has more
    instructions, but is made of layers with products of their own.
    """

    name: str
    function: Function | None = None
    """None: it is an operator."""
    invocations: set[int] = field(default_factory=set)
    calls: set[int] = field(default_factory=set)
    """The numbers of the calls of operators."""
    amount: Amount = Amount()
    products: int = 0
    of_layers: int = 0
    """The products of modules that a function calls."""
    composites: int = 0
    """Those that are made in the forward."""

    @property
    def is_elementary(self) -> bool:
        """True if it is more than products, and no layer made of layers."""
        most = self.amount.instructions / _BESIDE_PRODUCT
        return not self.of_layers and self.products <= most

    @property
    def rank(self) -> tuple[bool, float, str]:
        """A key to sort by, the best first."""
        tensors = 0 if self.function is None else sum(self.function.tensors)
        composites = self.composites / max(len(self.invocations), 1)
        worth = self.amount.instructions / (_TENSORS + tensors) / (1 + composites)
        return not self.is_elementary, -worth, self.name


@dataclass(frozen=True, slots=True)
class Attribution:
    """The work of a step, by what it comes from. Functions and operators without work outside
    composites are left out."""

    recorded: Recorded
    work: Mapping[int | None, Amount]
    """By the number of the call of an operator. None: instructions that come from no call."""
    composites: int
    functions: Mapping[str, Source]
    """The best first."""
    operators: Mapping[str, Source]
    """Those with most work first."""

    @property
    def outside(self) -> Amount:
        return sum(self.work.values(), Amount())

    def amount_of(self, calls: Iterable[int], without: Collection[int] = ()) -> Amount:
        """The work of calls."""
        return sum((self.work.get(n, Amount()) for n in calls if n not in without), Amount())


def attribute(recorded: Recorded) -> Attribution:
    """Say what the instructions of a step come from. Those of the sum that makes a loss of the
    module's result are left out."""
    invocations = recorded.functions.invocations

    def around(invocation: int | None) -> dict[str, Source]:
        """The functions that a call of a function is in, the innermost first."""
        within = recorded.functions.within(invocation)
        targets = (invocations[n].function.target for n in within)
        return {target: functions[target] for target in targets}

    functions: dict[str, Source] = {}
    for n, invocation in enumerate(invocations):
        target = invocation.function.target
        functions.setdefault(target, Source(target, invocation.function)).invocations.add(n)
    work: dict[int | None, Amount] = {}
    operators: dict[str, Source] = {}
    composites: Counter[int | None] = Counter()
    products: Counter[int | None] = Counter()
    for item in work_of(recorded.module):
        number = recorded.call_of(item.part_of)
        if LOSS in around(recorded.made_in(number)):
            continue
        if item.is_composite:
            composites[recorded.invocation_of(item.part_of)] += 1
        elif item.is_product:
            products[number] += 1
        else:
            moved = sum(_bytes_of(each.shape) for each in (item.instruction, *item.operands))
            work[number] = work.get(number, Amount()) + Amount(1, moved)
    for number in {*work, *products} - {None}:
        assert number is not None
        name = recorded.calls[number].operator
        operator = operators.setdefault(name, Source(name))
        operator.products += products[number]
        sources = list(around(recorded.made_in(number)).values())
        for source in (*sources, operator) if number in work else sources:
            source.amount += work.get(number, Amount())
            source.calls.add(number)
    for made_in, count in composites.items():
        for source in around(made_in).values():
            source.composites += count
    for number, count in products.items():
        in_layer = False
        for source in around(recorded.made_in(number)).values():
            source.products += count
            source.of_layers += count * in_layer
            in_layer = in_layer or source.name.endswith(".forward")
    functions.pop(LOSS, None)
    best = sorted(functions.values(), key=lambda source: source.rank)
    most = sorted(operators.values(), key=lambda o: (-o.amount.instructions, o.name))
    return Attribution(
        recorded,
        work,
        composites.total(),
        {source.name: source for source in best if source.amount.instructions},
        {source.name: source for source in most if source.amount.instructions},
    )


def _bytes_of(shape: Any) -> int:
    """Bytes of a value, by its HLO shape. Elements of less than a byte take one."""
    if parts := list(shape.tuple_shapes):
        return sum(map(_bytes_of, parts))
    name = ELEMENT_TYPE_NAMES.get(shape.element_type)
    if name is None:
        return 0
    bits = re.search(r"\d+", BY_NAME[name].numpy)  # bool has none
    return int(prod(shape.dimensions)) * max(int(bits[0]) // 8 if bits else 1, 1)
