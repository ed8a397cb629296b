"""The functions and operators that the instructions of a recorded step come from."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from composites.element_types import BY_NAME
from lowering.emission.hlo_proto import ELEMENT_TYPE_NAMES
from lowering.hlo.work import Work, work_of
from lowering.suggestion.functions import LOSS, Callee
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

    callee: Callee
    invocations: set[int] = field(default_factory=set)
    """The numbers of its own calls."""
    calls: set[int] = field(default_factory=set)
    """The numbers of the calls of operators with work."""
    amount: Amount = Amount()
    products: int = 0
    of_layers: int = 0
    """The products of modules that a function calls."""
    composites: int = 0
    """Those that are made in the forward."""

    @property
    def name(self) -> str:
        return self.callee.name

    @property
    def is_function(self) -> bool:
        """True if it is a function, and not an operator."""
        return self.callee.overload is None

    @property
    def count(self) -> int:
        """The number of its calls, or of those of an operator that have work."""
        return len(self.invocations if self.is_function else self.calls)

    @property
    def is_elementary(self) -> bool:
        """True if it is more than products, and no layer made of layers."""
        most = self.amount.instructions / _BESIDE_PRODUCT
        return not self.of_layers and self.products <= most

    @property
    def rank(self) -> tuple[bool, float, str]:
        """A key to sort by, the best first."""
        composites = self.composites / max(len(self.invocations), 1)
        worth = self.amount.instructions / (_TENSORS + sum(self.callee.tensors)) / (1 + composites)
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
    sources: dict[str, Source] = {}
    for n, call in enumerate(recorded.calls):
        sources.setdefault(call.callee.name, Source(call.callee)).invocations.add(n)
    work: dict[int | None, Amount] = {}
    composites = 0
    for item in work_of(recorded.module):
        number = recorded.call_of(item.part_of)
        # The operator and the functions that it is called in, the innermost first.
        names = dict.fromkeys(recorded.calls[n].callee.name for n in recorded.within(number))
        around = [sources[name] for name in names]
        if LOSS in names:
            continue
        if item.is_composite:
            composites += 1
            for source in around:
                source.composites += source.is_function
            continue
        amount = Amount() if item.is_product else _amount(item)
        if number is None or around[0].is_function:
            work[None] = work.get(None, Amount()) + amount
            continue
        work[number] = work.get(number, Amount()) + amount
        in_layer = False
        for source in around:
            source.amount += amount
            source.products += item.is_product
            if source.is_function or not item.is_product:
                source.calls.add(number)
            source.of_layers += item.is_product and in_layer
            in_layer |= source.is_function and source.name.endswith(".forward")
    worked = [source for source in sources.values() if source.amount.instructions]
    functions = sorted((s for s in worked if s.is_function), key=lambda s: s.rank)
    operators = [source for source in worked if not source.is_function]
    operators.sort(key=lambda o: (-o.amount.instructions, o.name))
    return Attribution(
        recorded,
        work,
        composites,
        {source.name: source for source in functions},
        {source.name: source for source in operators},
    )


def _amount(item: Work) -> Amount:
    moved = sum(_bytes_of(each.shape) for each in (item.instruction, *item.operands))
    return Amount(1, moved)


def _bytes_of(shape: Any) -> int:
    """Bytes of a value, by its HLO shape. Elements of less than a byte take one."""
    if parts := list(shape.tuple_shapes):
        return sum(map(_bytes_of, parts))
    name = ELEMENT_TYPE_NAMES.get(shape.element_type)
    if name is None:
        return 0
    bits = re.search(r"\d+", BY_NAME[name].numpy)  # bool has none
    return int(prod(shape.dimensions)) * max(int(bits[0]) // 8 if bits else 1, 1)
