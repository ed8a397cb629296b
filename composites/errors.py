"""The exceptions of the project. Exceptions for StableHLO files are in
lowering.stablehlo.errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches


def installing(extra: str) -> str:
    """Return the command that installs an extra of this package, which no index has yet."""
    return f"pip install '.[{extra}]' in a clone of torch-xla-composites"


def listed(names: Sequence[str], most: int, empty: str) -> str:
    """Join names for a message: the first `most` names, and the number of the remaining ones."""
    more = len(names) - most
    written = ", ".join(names[:most]) or empty
    return f"{written} and {more} more" if more > 0 else written


class CompositesError(Exception):
    """Base class of all errors that the user can fix."""


class CompositesWarning(UserWarning):
    """A warning that the user should read; the program continues."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem in a registry file, printed as `file:line: entry: message`."""

    file: str
    line: int
    entry: str | None
    message: str

    def __str__(self) -> str:
        subject = f"{self.entry}: " if self.entry else ""
        return f"{self.file}:{self.line}: {subject}{self.message}"


class RegistryError(CompositesError):
    """A registry file is invalid. The error carries every problem, sorted by file and line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.file, p.line)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class AllowlistError(CompositesError):
    """XLA_COMPOSITE_OP, or a call of enable/disable, names something that cannot be turned on."""


class DecompositionError(CompositesError):
    """XLA_COMPOSITE_DECOMPOSITION, or `decompositions`, names an alternative that does not exist or
    cannot be used."""


class UnsupportedCallError(CompositesError):
    """The call takes the stock lowering. A decomposition or an adapting function raises this."""


class DeclinedError(UnsupportedCallError):
    """A composite does not claim a call. This is not a fallback: the hook of the call has counted
    it, or the entry does not catch such calls."""


class InvalidCallError(CompositesError, RuntimeError):
    """The operator does not accept the call. A decomposition raises this where a kernel would
    fail."""


class LoweringError(CompositesError):
    """An entry's decomposition or condition failed for a call."""


class ExportError(CompositesError):
    """The module cannot be exported as requested."""


class VaryingAttributeError(ExportError, LoweringError):
    """An attribute of a composite depends on a size that varies in the program."""


class SuggestionError(CompositesError):
    """No step of a model can be recorded, so no entries can be suggested for the model."""


class ProgramError(CompositesError):
    """A program cannot be saved, loaded or run as requested."""


class UnusableFunctionError(CompositesError):
    """A function named in a registry or on the command line does not exist or does not fit."""


class LockError(CompositesError):
    """A lock file cannot be read, or a registry breaks a contract of its lock."""


class MissingPackageError(CompositesError):
    """A required package is not installed, or lacks a function that this package needs."""


def did_you_mean(name: str, choices: Sequence[str]) -> str:
    """Return `; did you mean 'gelu'?` with the closest name in `choices`; empty if none is close.

    Comparing takes time that grows with the square of the length, so long names get no hint.
    """
    if len(name) > 100:
        return ""
    matches = get_close_matches(name, choices, n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""
