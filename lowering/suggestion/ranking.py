"""Which functions are worth an entry.

A good function has many instructions, few tensors to take and to return, and no product: a norm, a
rotary embedding, a gate. A whole layer has more instructions, but products too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lowering.suggestion.attribution import Amount, Attribution, FunctionWork

FEWEST = 3
"""Instructions per call below which nothing is worth an entry."""
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
        return self.amount.instructions * compact / (1 + self.function.products / calls)


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
        if (
            function.products
            or function.target in around
            or not free
            or left < FEWEST * len(free)
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
