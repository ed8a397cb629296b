"""How every command reports an error: `error: …` on stderr, and exit code 1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console

from composites.errors import CompositesError
from lowering.stablehlo import StableHLOError


def fail(message: str) -> NoReturn:
    """Report an error and exit."""
    text = f"error: {message}"
    Console(stderr=True).print(text, style="red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(1)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Report errors that the user can fix, without a traceback."""
    try:
        yield
    except (CompositesError, StableHLOError) as error:
        fail(str(error))
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        fail(f"{named}{error.strerror or error}")
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "torch_xla"):
            raise
        fail(f"this command needs {error.name}; pip install 'torch-xla-composites[torch]'")
