"""The commands `inspect`, `lower` and `compare`."""

from pathlib import Path

from typer.testing import CliRunner

from lowering.cli.app import app


def invoke(*arguments: str | Path) -> tuple[int, str, str]:
    """Run a command. Gives its exit code, stdout and stderr."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr
