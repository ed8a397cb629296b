"""The command line, run in this process."""

from typer.testing import CliRunner, Result

from lowering.cli.app import app


def invoke(*arguments: object, **environment: str | None) -> Result:
    """Run a command with these variables beside those of the process; None unsets one."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=environment)
