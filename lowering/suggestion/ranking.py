"""Which functions are worth an entry.

A good function has many instructions, few tensors to take and to return, and few products: a norm,
a rotary embedding, a gate, a scan. A whole layer has more instructions, but is made of layers with
products of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lowering.suggestion.attribution import Amount, Attribution, FunctionWork

FEWEST = 3
"""Instructions per call below which nothing is worth an entry."""
LEAST = 0.02
"""The share of what is outside below which nothing is worth an entry."""
AROUND = 4 * FEWEST
"""Instructions per call below which a function that makes composites is not worth another one."""
BESIDE_PRODUCT = 8
"""Instructions for each product below which a function is mostly its products."""
_TENSORS = 8
"""The number of operands and results that halves a function's rank."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A function that ran, and its work."""

    function: FunctionWork
    amount: Amount
    tensors: int
    """That it takes and returns."""

    @property
    def score(self) -> float:
        calls = max(len(self.function.invocations), 1)
        compact = _TENSORS / (_TENSORS + self.tensors)
        layers, composites = self.function.of_layers / calls, self.function.composites / calls
        score = self.amount.instructions * compact / (1 + layers) ** 2 / (1 + composites)
        return score * max(1 - self.function.products / self._most_products, 0.01)

    @property
    def is_elementary(self) -> bool:
        """Whether it is more than products, and no layer made of layers."""
        return not self.function.of_layers and self.function.products <= self._most_products

    @property
    def _most_products(self) -> float:
        return self.amount.instructions / BESIDE_PRODUCT


def is_enough(instructions: int, calls: int, attribution: Attribution, fewest: int) -> bool:
    """Whether instructions of some calls are worth an entry."""
    return instructions >= max(fewest * calls, LEAST * attribution.outside.instructions)


def ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The best first."""
    return sorted(candidates, key=lambda c: (-c.score, c.function.target))


def chosen(
    candidates: Sequence[Candidate],
    attribution: Attribution,
    accepts: Callable[[Candidate], bool],
) -> list[Candidate]:
    """Functions whose entries do not compete: none is called in another one, or only beside work
    that is worth an entry of its own.

    Args:
        accepts: whether an entry can be written for a function.
    """
    invocations = attribution.recorded.calls.functions.invocations
    covered: set[int] = set()
    inside: set[int] = set()  # invocations in functions that were chosen, and these themselves
    around: set[str] = set()  # functions that chosen ones are called in
    taken: list[Candidate] = []
    for candidate in ranked(candidates):
        function = candidate.function
        free = function.invocations - inside
        left = attribution.of(function.calls, without=covered).instructions
        fewest = AROUND if function.composites else FEWEST
        if (
            not candidate.is_elementary
            or function.target in around
            or not free
            or not is_enough(left, len(free), attribution, fewest)
            or not accepts(candidate)
        ):
            continue
        taken.append(candidate)
        covered |= function.calls
        for n, invocation in enumerate(invocations):
            if n in function.invocations or invocation.caller in inside:
                inside.add(n)  # callers come first
        for n in function.invocations:
            caller = invocations[n].caller
            while caller is not None:
                around.add(invocations[caller].function.target)
                caller = invocations[caller].caller
    return taken
