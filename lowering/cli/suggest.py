"""`composites suggest`: the parts of a model's step outside composites, and a draft for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from composites.files import write_atomic
from composites.functions import load_function
from lowering.cli.errors import clear_errors, fail, fail_usage
from lowering.cli.export import FactoryArgument, load_factory
from lowering.cli.output import check_folders, numbers, print_json, print_table, texts

if TYPE_CHECKING:
    from lowering.suggestion.draft import Suggestion
    from lowering.suggestion.suggest import SuggestionReport


_ROWS = 20
"""The number of rows of each table."""


def suggest(
    factory: FactoryArgument,
    forward: Annotated[
        bool, typer.Option("--forward", help="Record only the forward, without gradients.")
    ] = False,
    optimizer: Annotated[
        str | None,
        typer.Option(help="package.module:FACTORY, such as torch.optim:AdamW; records its step."),
    ] = None,
    ops: Annotated[
        str,
        typer.Option(
            help="Composites to turn on, as in XLA_COMPOSITE_OP; default: its value, or all."
        ),
    ] = "",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the draft to this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Rank the functions and operators of a model outside composites, and draft entries for them.

    The step is recorded and not run: the forward, and the backward of the loss that the module
    returns, or of the sum of its results. Functions with many instructions and few tensors as
    arguments and results come first. The draft has entries for these functions. Each was tried.

    Example: composites suggest examples/models.py:bert -o draft.yaml
    """
    if forward and optimizer:
        fail_usage("--forward has no gradients for --optimizer; leave one out")
    check_folders(output)
    with clear_errors():
        from composites.allowlist import split_allowlist
        from lowering.suggestion.suggest import suggest as suggest_entries

        module, args, kwargs = load_factory(factory)
        report = suggest_entries(
            *(module, args, kwargs),
            backward=not forward,
            optimizer=load_function(optimizer) if optimizer else None,
            ops=split_allowlist(ops) or None,
        )
        if output is not None:
            if report.draft is None:
                fail(f"no function is worth an entry, so {output} was not written")
            write_atomic(output, report.draft)
        if as_json:
            print_json(asdict(report))
        else:
            _print(report)
            if output is not None:
                typer.echo(f"{output} has the draft; composites show describes its entries")


def _print(report: SuggestionReport) -> None:
    typer.echo(f"{report.outside} instructions outside {report.composites} composites")
    title = "Functions, with their callees and their backwards"
    _print_rows(title, "function", report.functions[:_ROWS], report.outside, ("in", "out"))
    _print_rows("Operators", "operator", report.operators[:_ROWS], report.outside, ())
    if report.draft is None:
        typer.echo("no draft: no function is worth an entry")
    else:
        count = len(report.entries)
        typer.echo(
            f"a draft with {count} entr{'y' if count == 1 else 'ies'} leaves {report.after} of"
            f" {report.outside} instructions outside (-o writes it)"
        )


def _print_rows(
    title: str, kind: str, rows: Sequence[Suggestion], total: int, tensors: Sequence[str]
) -> None:
    counted = numbers("calls", "instructions", "share", *tensors)
    table = Table(*texts(kind), *counted, "entry, or why there is none", title=title)
    for row in rows:
        share = f"{row.instructions / max(total, 1):.1%}"
        counts = (str(row.tensors_in), str(row.tensors_out)) if tensors else ()
        note = Text(f"draft: {row.entry}" if row.entry else row.note)
        amounts = (str(row.calls), str(row.instructions), share)
        table.add_row(Text(row.name), *amounts, *counts, note)
    if rows:
        print_table(table)
