"""The one way in which the command line reports a mistake: `error: …` on stderr, exit code 1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console

from composites.errors import CompositesError, RegistryError
from lowering.stablehlo import StableHLOError


def fail(message: str, prefix: str = "error: ") -> NoReturn:
    """Report an error and exit."""
    text = f"{prefix}{message}"
    Console(stderr=True).print(text, style="red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(1)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Report errors that the user can fix, without a traceback."""
    try:
        yield
    except RegistryError as error:  # its lines start with file and line, which editors can follow
        fail(str(error), prefix="")
    except (CompositesError, StableHLOError) as error:
        fail(str(error))
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        fail(f"{named}{error.strerror or error}")
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "torch_xla"):
            raise
        fail(f"this command needs {error.name}; pip install 'torch-xla-composites[torch]'")
