"""Declarations of the options that a pass has in `composites lower`.

A pass declares a `PassOptions` beside its function, and the package lists it in `COMMAND_LINE`. The
command line is made of that list, so no option is written twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import OptionError
from .pipeline import Pass


@dataclass(frozen=True)
class Option:
    """One option of `composites lower`."""

    flag: str
    """`--widen-dots`, or `--clean/--no-clean` for a switch that can be turned off."""
    help: str
    metavar: str | None = None
    """The name of the value, for an option that can be repeated; None for a switch."""
    default: bool = False
    """The default of a switch."""

    @property
    def name(self) -> str:
        """The option as a Python name."""
        return self.flag.partition("/")[0].removeprefix("--").replace("-", "_")


@dataclass(frozen=True)
class PassOptions:
    """A pass on the command line."""

    options: tuple[Option, ...]
    make: Callable[..., Sequence[Pass]]
    """Returns the passes to run. It is called with the values of the options, in order, if any is
    given."""

    def passes(self, values: Sequence[Any]) -> Sequence[Pass]:
        """The passes that these values of the options select."""
        return self.make(*values) if any(values) else ()


def switch(flag: str, run: Pass, help: str) -> PassOptions:
    """A pass without arguments that a flag turns on."""
    return PassOptions((Option(flag, help),), lambda _: [run])


def pairs(flag: str, texts: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` options as a dictionary.

    Raises:
        OptionError: an item is not a pair, or a name appears twice.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not (name and separator and value):
            raise OptionError(f"{flag} {text!r}: write it as NAME=VALUE")
        if name in values:
            raise OptionError(f"{flag} names {name!r} twice")
        values[name] = value
    return values


def listed(flag: str, texts: Sequence[str]) -> dict[str, frozenset[str]]:
    """`NAME=VALUE,VALUE` options as sets of values by name.

    Raises:
        OptionError: as `pairs`, or a value is empty.
    """
    lists = {name: values.split(",") for name, values in pairs(flag, texts).items()}
    for name, values in lists.items():
        if not all(values):
            raise OptionError(f"{flag} {name}: write it as NAME=VALUE,VALUE")
    return {name: frozenset(values) for name, values in lists.items()}
