"""`composites show`: all about one entry, with the StableHLO of an example call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from composites.settings import ALLOWLIST
from lowering.cli.errors import clear_errors, warn
from lowering.cli.output import print_json, print_table

if TYPE_CHECKING:
    from lowering.cli.description import Description


def show(
    name: Annotated[
        str, typer.Argument(help="A name, as in XLA_COMPOSITE_OP.", show_default=False)
    ],
    registry: Annotated[
        list[Path] | None,
        typer.Option("--registry", help="Registry files, instead of XLA_COMPOSITE_REGISTRY."),
    ] = None,
    hook: Annotated[bool, typer.Option("--hook", help="Also print the generated hook.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the hook.")] = False,
) -> None:
    """Show what an entry catches, its operands and attributes, and the StableHLO of an example
    call.

    Nothing runs on a device. For a name of several entries, such as a group, show a list of them.

    Example: composites show gelu
    """
    with clear_errors(), ALLOWLIST.unset():
        from composites.registry.catalog import load_catalog
        from lowering.cli.description import Shown, chosen, described
        from lowering.cli.listing import listed, listing_table

        files = None if registry is None else [str(path) for path in registry]
        catalog = load_catalog(files, in_place=files is not None)
        for text in catalog.warnings():
            warn(text)
        entries = chosen(name, catalog)
        if as_json:
            print_json(asdict(Shown([described(entry, catalog) for entry in entries])))
        elif len(entries) == 1:
            _print(described(entries[0], catalog, tried=False), with_hook=hook)
        else:
            labels = {catalog.label(entry) for entry in entries}
            print_table(listing_table(e for e in listed(catalog, ()) if e.name in labels))
            typer.echo(f"{name} selects these entries; name one of them for its full description")


def _print(entry: Description, *, with_hook: bool) -> None:
    source = f" (package {entry.package})" if entry.package else " (built-in)" * entry.builtin
    typer.echo(f"{entry.contract.composite}, version {entry.contract.version}")
    for line in (f"entry: {entry.name}, {entry.file}:{entry.line}{source}", *_lines(entry)):
        typer.echo(f"- {line}")
    if with_hook and entry.hook:
        typer.echo(f"\n{entry.hook}")
    if entry.stablehlo is None:
        typer.echo(f"\nno StableHLO of an example call: {entry.no_stablehlo}")
    else:
        typer.echo(f"\nStableHLO of an example call:\n\n{entry.stablehlo}")
    if entry.stablehlo_of_backward is not None:
        typer.echo(f"StableHLO of its gradients:\n\n{entry.stablehlo_of_backward}")


def _lines(entry: Description) -> Iterator[str]:
    if entry.also_made_by:
        yield f"also produced by: {', '.join(entry.also_made_by)}"
    yield f"turn on: {entry.turn_on} python train.py"
    yield from (fact.replace("`", "") for fact in entry.facts)
    yield from (f"not found here: {target}" for target in entry.not_found)
    if entry.hook:
        yield f"hook: {len(entry.hook.splitlines())} lines of Python; --hook prints them"
