"""Commands such as `inspect`, `lower` and `export`, and the tables that they print."""

import io
from pathlib import Path
from typing import Any

from rich.console import Console
from typer.testing import CliRunner

from lowering.cli.app import app


def invoke(*arguments: str | Path) -> tuple[int, str, str]:
    """Run a command. Gives its exit code, stdout and stderr."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def printed(table: Any, width: int = 160) -> str:
    """The text of a table."""
    output = io.StringIO()
    Console(file=output, width=width).print(table)
    return output.getvalue()
