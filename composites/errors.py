"""Every exception that a user of the project can meet, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches


class CompositesError(Exception):
    """Base of all errors raised for something the user can put right."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a registry file: `file:line: entry: what, and what would be right`."""

    file: str
    line: int
    entry: str | None
    message: str

    def __str__(self) -> str:
        subject = f"{self.entry}: " if self.entry else ""
        return f"{self.file}:{self.line}: {subject}{self.message}"


class RegistryError(CompositesError):
    """A registry file is wrong; carries every problem of the file, in the order of its lines."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.file, p.line)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class AllowlistError(CompositesError):
    """XLA_COMPOSITE_OP, or a call of enable/disable, names something that cannot be turned on."""


class UnsupportedCallError(CompositesError):
    """A decomposition raises it for calls that it leaves to the stock lowering."""


class InvalidCallError(CompositesError, RuntimeError):
    """A call that the operator does not accept; a decomposition raises it as a kernel would."""


class LoweringError(CompositesError):
    """An entry's own decomposition could not be lowered for a call."""


class ExportError(CompositesError):
    """The module cannot be exported as asked."""


class ProgramError(CompositesError):
    """A program cannot be saved, loaded or run as asked."""


class UnusableFunctionError(CompositesError):
    """A function that a registry or a command line names does not exist, or does not fit."""


class MissingPackageError(CompositesError):
    """A package that this step needs is not installed."""


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """`; did you mean 'gelu'?` for the closest of `known`, or nothing where none is close."""
    matches = get_close_matches(name, known, n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""
