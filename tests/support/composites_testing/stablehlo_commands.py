"""The commands `inspect`, `lower` and `compare`, without the others, which need torch."""

from pathlib import Path

import typer
from typer.testing import CliRunner

from lowering.cli import compare, stablehlo

APP = typer.Typer()
compare.register(APP)
stablehlo.register(APP)


def invoke(*arguments: str | Path) -> tuple[int, str, str]:
    """Run a command. Gives its exit code, stdout and stderr."""
    result = CliRunner().invoke(APP, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr
