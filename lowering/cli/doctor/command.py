"""`composites doctor`: the command, and how its findings are printed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from lowering.cli.errors import clear_errors
from lowering.cli.output import print_table

if TYPE_CHECKING:
    from lowering.cli.doctor.findings import Examination

_STYLES = {"ok": "green", "warning": "yellow", "problem": "red"}


def register(app: typer.Typer) -> None:
    """Add the command `doctor` to an application."""
    app.command()(doctor)


def doctor(
    script: Annotated[
        Path | None,
        typer.Argument(help="A script that is looked at too. It is not run.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say whether composites work here: versions, the plug-in, variables, registries, and usual
    mistakes, each with what to do.

    A program that imports torch and torch_xla is started with the variables of this command. The
    exit code is 1 if there is a problem.

    Example: XLA_COMPOSITE_OP=gelu composites doctor train.py
    """
    with clear_errors():
        from lowering.cli.doctor.examination import examine

        found = examine(script)
    if as_json:
        counts = {"problems": found.count("problem"), "warnings": found.count("warning")}
        typer.echo(json.dumps(counts | asdict(found), indent=2))
    else:
        print_table(_table(found))
        problems, warnings = (_counted(found, level) for level in ("problem", "warning"))
        typer.echo(f"{problems}, {warnings}")
    if found.count("problem"):
        raise typer.Exit(1)


def _counted(found: Examination, level: str) -> str:
    number = sum(finding.level == level for finding in found.findings)
    return f"{number or 'no'} {level}{'s' * (number != 1)}"


def _table(found: Examination) -> Table:
    """One row for each finding, with what to do under what was found."""
    table = Table()
    table.add_column("", no_wrap=True)
    table.add_column("looked at", overflow="fold")
    table.add_column("found", overflow="fold")
    for finding in found.findings:
        text = Text(finding.text)
        if finding.advice:
            text.append(f"\n-> {finding.advice}", style="bold")
        level = Text(finding.level, style=_STYLES[finding.level])
        table.add_row(level, Text(finding.subject), text)
    return table
