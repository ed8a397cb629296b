"""The application with all commands."""

from __future__ import annotations

import json
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
    doctor,
    export,
    registry,
    run,
    show,
    stablehlo,
    suggest,
    verify,
)
from lowering.cli.errors import clear_errors
from lowering.cli.init import command as init
from lowering.cli.output import print_table

app = typer.Typer(
    name="composites",
    help="PyTorch operators as stablehlo.composite: registries, hooks and StableHLO files.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # panels cut the names of options
    pretty_exceptions_enable=False,
)
COMMANDS = (
    init, registry, contracts, show, suggest, verify, export, run, stablehlo, compare, doctor
)  # fmt: skip
for module in COMMANDS:
    module.register(app)


def _print_version(asked: bool) -> None:
    if asked:
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
def env(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show the environment variables that the project reads, and their current values."""
    with clear_errors():
        warn_of_unknown_variables()
    if as_json:
        rows = [asdict(variable) | {"value": variable.read()} for variable in VARIABLES]
        typer.echo(json.dumps({"variables": rows}, indent=2))
        return
    table = Table(Column("variable", no_wrap=True), "value", "meaning", "example")
    for variable in VARIABLES:
        table.add_row(variable.name, Text(variable.read()), variable.meaning, variable.example)
    print_table(table)
