"""Programs in files, each of which says what is checked of it.

A case is a program after lines of these forms:

| line | meaning |
|---|---|
| `// CASE title` | begins a case |
| `// for $A in x y` | the case with `x` and with `y` in place of `$A` |
| `// where $A is x; $B is y` | the case with these; of lines in a row, with those of each |
| `// load name` | the program is `tests/stablehlo/data/name.mlir` |

Tests give a meaning to others.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, product

from composites_testing.passes import load
from lowering.stablehlo import Module


@dataclass(frozen=True)
class Case:
    """A program, and what is checked of a pass on it."""

    title: str
    rules: tuple[tuple[str, str], ...]
    """The first word of each line, and the rest. Of `2 times text`, `times` and `2 text`."""
    program: str

    def all(self, word: str) -> list[str]:
        return [rest for first, rest in self.rules if first == word]

    def has(self, word: str) -> bool:
        return bool(self.all(word))

    def module(self) -> Module:
        for name in self.all("load"):
            return load(name)
        return Module.parse(self.program)


def cases(text: str) -> Iterator[Case]:
    """The cases of a file, one for each of the values that stand for its variables."""
    for part in re.split(r"^// CASE ", text, flags=re.MULTILINE)[1:]:
        title, *lines = part.splitlines()
        written = [line.removeprefix("// ") for line in lines if line.startswith("// ")]
        program = "\n".join(line for line in lines if not line.startswith("// "))
        rules = [re.sub(r"^(\d+) times ", r"times \1 ", line) for line in written]
        split = [(first, rest) for line in rules for first, _, rest in [line.partition(" ")]]
        case = Case(title, tuple(split), program)
        for values in product(*_values(case)):
            yield _filled(case, {name: value for row in values for name, value in row.items()})


def _values(case: Case) -> Iterator[list[dict[str, str]]]:
    for word, lines in groupby(case.rules, key=lambda rule: rule[0]):
        if word == "where":
            yield [_row(line) for _, line in lines]
        elif word == "for":
            for _, line in lines:
                name, _, listed = line.partition(" in ")
                yield [{name: value} for value in listed.split()]


def _row(line: str) -> dict[str, str]:
    parts = [part.partition(" is") for part in line.split("; ")]
    return {name: value.strip() for name, _, value in parts}


def _filled(case: Case, values: dict[str, str]) -> Case:
    def filled(text: str) -> str:
        while "$" in text:  # values have variables too
            text = re.sub(r"\$[A-Z]+", lambda name: values[name[0]], text)
        return text

    rules = [(word, rest) for word, rest in case.rules if word not in ("for", "where")]
    title = ", ".join([case.title, *values.values()])
    return Case(title, tuple((w, filled(rest)) for w, rest in rules), filled(case.program))
