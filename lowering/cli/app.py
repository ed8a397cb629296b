"""The application with all commands."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

import composites
from composites.settings import VARIABLES, warn_of_unknown_variables
from lowering.cli import (
    compare,
    contracts,
    diagnose,
    doctor,
    export,
    init,
    registry,
    run,
    show,
    stablehlo,
    suggest,
    verify,
)
from lowering.cli.errors import clear_errors
from lowering.cli.output import AsJson, print_json, print_table

app = typer.Typer(
    name="composites",
    help="PyTorch operators as stablehlo.composite: registries, hooks and StableHLO files.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # panels would truncate the names of options
    pretty_exceptions_enable=False,
)
COMMANDS: Mapping[str, Callable[..., None]] = {
    "init": init.init,
    "check": registry.check,
    "codegen": registry.codegen,
    "docs": registry.docs,
    "generate": registry.generate,
    "schema": registry.schema,
    "format": registry.format_files,
    "list": registry.list_entries,
    "lock": contracts.lock,
    "diff": contracts.diff,
    "watch": registry.watch,
    "show": show.show,
    "suggest": suggest.suggest,
    "verify": verify.verify,
    "export": export.export,
    "run": run.run,
    "inspect": stablehlo.inspect,
    "lower": stablehlo.lower,
    "compare": compare.compare_kernels,
    "diagnose": diagnose.diagnose_program,
    "doctor": doctor.doctor,
}
_SETTINGS = {"run": {"ignore_unknown_options": True, "allow_interspersed_args": False}}
"""The settings of commands. Options after a script belong to the script."""
for name, command in COMMANDS.items():
    app.command(name, context_settings=_SETTINGS.get(name))(command)
app.command("describe", hidden=True)(show.show)  # a second name that programs may expect


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"composites {composites.__version__}")
        raise typer.Exit


@app.callback()
def application(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """PyTorch operators as stablehlo.composite: registries, hooks and StableHLO files."""


@app.command()
def env(as_json: AsJson = False) -> None:
    """Show the environment variables that the project reads, and their current values."""
    with clear_errors():
        warn_of_unknown_variables()
    if as_json:
        rows = [asdict(variable) | {"value": variable.read()} for variable in VARIABLES]
        print_json({"variables": rows})
        return
    table = Table(Column("variable", no_wrap=True), "value", "meaning", "example")
    for variable in VARIABLES:
        table.add_row(variable.name, Text(variable.read()), variable.meaning, variable.example)
    print_table(table)
