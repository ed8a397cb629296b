"""Errors of the command line: `error: …` on stderr with exit code 1, or 2 for an error in the
arguments. A warning is `warning: …` on stderr, and the command continues.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn
from unittest import mock

import typer
from rich.console import Console

from composites.errors import CompositesError, CompositesWarning, RegistryError, installing
from lowering.stablehlo import OptionError, StableHLOError


def fail(message: str, prefix: str = "error: ", code: int = 1) -> NoReturn:
    """Report an error and exit."""
    text = f"{prefix}{message}"
    Console(stderr=True).print(text, style="red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(code)


def fail_usage(message: str) -> NoReturn:
    """Report an error in a command's arguments, and exit with typer's code for such errors."""
    fail(message, code=2)


def warn(message: object) -> None:
    """Report a problem that does not stop the command."""
    text = f"warning: {message}"
    Console(stderr=True).print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _clear_warnings() -> Iterator[None]:
    """Report the project's own warnings, without the line of code that raised them."""
    stock: Any = warnings.showwarning

    def show(message: object, category: type[Warning], *arguments: Any, **keywords: Any) -> None:
        if issubclass(category, CompositesWarning):
            warn(message)
        else:
            stock(message, category, *arguments, **keywords)

    with mock.patch.object(warnings, "showwarning", show):
        yield


@contextmanager
def clear_errors(code: int = 1) -> Iterator[None]:
    """Report errors that the user can fix with an exit code instead of a traceback, and report the
    project's warnings."""
    try:
        with _clear_warnings():
            yield
    except RegistryError as error:  # its lines start with file and line, as editors expect
        fail(str(error), prefix="", code=code)
    except OptionError as error:
        fail_usage(str(error))
    except (CompositesError, StableHLOError) as error:
        fail(str(error), code=code)
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        fail(f"{named}{error.strerror or error}", code=code)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "torch_xla"):
            raise
        fail(f"this command needs {error.name}; {installing('torch-xla')}", code=code)
