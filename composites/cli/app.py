"""The application with all commands."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

import composites
from composites.cli import export, registry, run, stablehlo
from composites.settings import VARIABLES

app = typer.Typer(
    name="composites",
    help="PyTorch operators as stablehlo.composite: registries, hooks and StableHLO files.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for module in (registry, export, run, stablehlo):
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
def env() -> None:
    """Show the environment variables that the project reads, and their current values."""
    table = Table(Column("variable", no_wrap=True), "value", "meaning", "example")
    for variable in VARIABLES:
        table.add_row(variable.name, variable.read(), variable.meaning, variable.example)
    Console().print(table)
