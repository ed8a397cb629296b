"""Sizes as sums of products: the expression that one place has in all recordings of a program.

    recordings at batch = 5, 7, 5, 13 and seq = 11, 11, 17, 19

    55, 77, 85, 247  =>  batch*seq
    12, 12, 18, 20   =>  seq + 1

A place is a dimension, a limit of a slice, an integer of a constant. The known sizes, which stand
for symbols, are those that the program can read from its tensors. Nothing here knows MLIR.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from math import prod
from typing import TypeAlias

Values: TypeAlias = tuple[int, ...]
"""What one place has in each recording."""

LARGEST_DEGREE = 3
"""Products have at most this many sizes as factors: batch, height and width."""


@dataclass(frozen=True)
class Term:
    """An integer times some of the known sizes."""

    factor: int
    sizes: tuple[int, ...]
    """Numbers of known sizes; one for each time that it is a factor."""


Sum: TypeAlias = tuple[Term, ...]
"""Terms to add. A constant is a term without sizes; the empty sum is 0."""


def constant(value: int) -> Sum:
    """A size that does not vary."""
    return (Term(value, ()),) if value else ()


def known(number: int) -> Sum:
    """One of the known sizes."""
    return (Term(1, (number,)),)


def find_sum(values: Values, sizes: Sequence[Values]) -> Sum | None:
    """The simplest expression that gives these values; None if there is none.

    Args:
        values: one integer for each recording.
        sizes: the known sizes, with one integer for each recording.

    A sum has at most two products beside its constant, and less unknown factors than its products
    have different values, so that at least one recording checks it.
    """
    if len(set(values)) == 1:
        return constant(values[0])
    products = list(_products(sizes))
    for numbers, column in products:
        factor = _factor(values, column)
        if factor is not None:
            return (Term(factor, numbers),)
    short = [item for item in products if len(item[0]) < LARGEST_DEGREE]
    for count in (1, 2):
        for chosen in combinations(short, count):
            different = {*zip(*(column for _, column in chosen), strict=True)}
            found = _solved(values, chosen) if len(different) > count + 1 else None
            if found is not None:
                return found
    return None


def text(expression: Sum, names: Sequence[str]) -> str:
    """An expression as people write it, such as `2*batch*seq + 1`."""
    terms = []
    for term in expression:
        factors = [names[number] for number in term.sizes]
        if term.factor != 1 or not factors:
            factors.insert(0, str(term.factor))
        terms.append("*".join(factors))
    return " + ".join(terms).replace("+ -", "- ") or "0"


def _products(sizes: Sequence[Values]) -> Iterator[tuple[tuple[int, ...], Values]]:
    """Products of the known sizes, the shorter ones first."""
    for degree in range(1, LARGEST_DEGREE + 1):
        for numbers in combinations_with_replacement(range(len(sizes)), degree):
            columns = [sizes[number] for number in numbers]
            yield numbers, tuple(map(prod, zip(*columns, strict=True)))


def _factor(values: Values, column: Values) -> int | None:
    """The integer that all values are of a column."""
    factor, rest = divmod(values[0], column[0])
    fits = not rest and all(v == factor * c for v, c in zip(values, column, strict=True))
    return factor if fits else None


def _solved(values: Values, chosen: Sequence[tuple[tuple[int, ...], Values]]) -> Sum | None:
    """A sum of these products, each with a factor, and a constant."""
    rows = [
        [*map(Fraction, row), Fraction(1), Fraction(value)]
        for *row, value in zip(*(column for _, column in chosen), values, strict=True)
    ]
    solution = _eliminated(rows, len(chosen) + 1)
    if solution is None or any(value.denominator != 1 for value in solution):
        return None
    *factors, offset = map(int, solution)
    if not all(factors):
        return None  # a smaller sum, which was tried before
    terms = (Term(factor, numbers) for factor, (numbers, _) in zip(factors, chosen, strict=True))
    return (*terms, *constant(offset))


def _eliminated(rows: list[list[Fraction]], unknowns: int) -> list[Fraction] | None:
    """The only solution of linear equations; None if there is none, or are several."""
    for column in range(unknowns):
        pivot = next((row for row in rows[column:] if row[column]), None)
        if pivot is None:
            return None
        rows.remove(pivot)
        pivot = [value / pivot[column] for value in pivot]
        rows = [
            [value - row[column] * other for value, other in zip(row, pivot, strict=True)]
            for row in rows
        ]
        rows.insert(column, pivot)
    if any(row[unknowns] for row in rows[unknowns:]):
        return None
    return [row[unknowns] for row in rows[:unknowns]]
