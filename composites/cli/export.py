"""`composites export`: write a module's inference or training step to files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from composites.cli.errors import clear_errors
from composites.cli.factories import FactoryArgument, load_factory
from composites.cli.output import print_table


def register(app: typer.Typer) -> None:
    """Add the command `export` to an application."""
    app.command()(export)


def export(
    factory: FactoryArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write.")],
    train: Annotated[
        bool,
        typer.Option("--train", help="Export loss and gradients instead of the module's outputs."),
    ] = False,
    optimizer: Annotated[
        str | None,
        typer.Option(help="package.module:FACTORY, such as torch.optim:AdamW; implies --train."),
    ] = None,
    ops: Annotated[
        str, typer.Option(help="Composites to turn on, as in XLA_COMPOSITE_OP; default: all.")
    ] = "",
    decompositions: Annotated[
        str | None,
        typer.Option(help="Their decompositions, as in XLA_COMPOSITE_DECOMPOSITION."),
    ] = None,
    weights: Annotated[
        bool, typer.Option("--weights", help="Also write the module's weights.")
    ] = False,
    share: Annotated[
        bool, typer.Option("--share/--no-share", help="Equal decompositions share one function.")
    ] = True,
    portable: Annotated[
        str | None, typer.Option(metavar="VERSION", help="StableHLO version of the artifact.")
    ] = None,
) -> None:
    """Export a module's inference or training step as StableHLO with composites."""
    with clear_errors():
        from composites.allowlist import split_allowlist
        from composites.functions import load_function
        from lowering.export.api import export as export_module

        module, args, kwargs = load_factory(factory)
        program = export_module(
            module,
            args,
            kwargs,
            train=train,
            optimizer=load_function(optimizer) if optimizer else None,
            ops=split_allowlist(ops) or None,
            decompositions=decompositions,
            share_decompositions=share,
        )
        values = program.module_weights(module) if weights else None
        program.save(output, portable=portable, weights=values)
    table = Table("composite", "calls", title=Text(str(output)))
    for name, count in sorted(program.composites.items()):
        table.add_row(name, str(count))
    print_table(table)
