"""The errors that this package reports to its user.

All of them are `StableHLOError`, so a command line needs only one `except`. Each message names the
problem, its location, and the remedy.
"""

from collections.abc import Iterable

from composites.errors import did_you_mean


class StableHLOError(ValueError):
    """Base class of the errors that `lowering.stablehlo` raises on purpose."""


class MissingJaxError(StableHLOError, ImportError):
    """jaxlib (for its MLIR bindings) or jax (to run or to bind) cannot be imported."""


class ParseError(StableHLOError):
    """The text is not a module that this jaxlib can read."""

    def __init__(self, source: str, line: int, column: int, problem: str, text: str) -> None:
        self.source = source
        self.line = line
        self.column = column
        self.problem = problem
        message = f"{source}:{line}:{column}: {problem}"
        lines = text.splitlines()
        if 0 < line <= len(lines):
            shown, start = _window(lines[line - 1], column)
            message += f"\n  {shown}\n  {' ' * (column - 1 - start)}^"
        super().__init__(message)


class BytecodeError(StableHLOError):
    """The bytes are a damaged module, a module of a newer StableHLO, or not a module at all."""


class CrashError(StableHLOError):
    """jaxlib crashed on a file in a separate process, or went over the limits of time or memory.

    The fault is jaxlib's; a damaged file triggers it.
    """


class VersionError(StableHLOError):
    """The module cannot be written for the requested StableHLO version."""


class VerificationError(StableHLOError):
    """The module breaks a rule of its dialects."""


class PassError(StableHLOError):
    """A pass of a pipeline returned something that is not a valid module."""


class UnknownCompositeError(StableHLOError):
    """A name or glob matches no composite of the module."""

    def __init__(self, pattern: str, existing: Iterable[str]) -> None:
        self.pattern = pattern
        names = sorted(set(existing))
        message = f"no composite matches {pattern!r}; "
        message += f"the module has: {', '.join(names)}" if names else "the module has none"
        message += did_you_mean(pattern, names)
        super().__init__(message)


class CompositeVersionError(StableHLOError):
    """The module calls another version of a composite than the requested version."""

    def __init__(self, name: str, version: int, existing: Iterable[int]) -> None:
        self.name = name
        self.version = version
        called = ", ".join(f"{name}@{number}" for number in sorted(set(existing)))
        super().__init__(
            f"{name}@{version} is for version {version} only, and the module calls {called}; name"
            f" the version that the kernel is for, or write {name} for all versions"
        )


class OptionError(StableHLOError):
    """An option does not have its form, or names something that does not exist."""


class UnsupportedOperationError(StableHLOError):
    """A pass has no rule for an operation."""


class RefusedOperationError(UnsupportedOperationError):
    """A consumer does not take an operation."""

    def __init__(self, consumer: str, operation: str, where: str, source: str) -> None:
        super().__init__(
            f"{consumer} does not take {operation}, which is in {where}{source}; replace it, or"
            " leave the target out"
        )
        self.source = source
        """The operator and the line of Python that the operation comes from; empty if unknown."""
        self.operation = operation
        """The operation's name, and the reason of the refusal, such as its element type."""
        self.others: tuple[RefusedOperationError, ...] = ()
        """The errors of further refused operations of the module."""


class DynamicSizeError(StableHLOError):
    """A program cannot have a dimension of varying size, or not the size that was passed."""


class SizeError(StableHLOError):
    """The result would be too large, because functions use each other many times over."""


class AttributeConversionError(StableHLOError):
    """A composite attribute cannot be expressed in the target form."""


class BindError(StableHLOError):
    """A function given to `bind` cannot replace a composite's decomposition."""


class RunError(StableHLOError):
    """The module could not be compiled for the chosen platform, or failed on it."""


def _window(line: str, column: int, width: int = 100) -> tuple[str, int]:
    """The part of a long line around `column`, and the offset at which this part starts."""
    start = max(0, column - 1 - width // 2) if len(line) > width else 0
    return line[start : start + width], start
