"""The command that compares a registry with the sources of the compilers that it is for."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from composites.registry.mentions import SUFFIXES, compare_mentions, source_files
from lowering.cli.errors import clear_errors, fail_usage
from lowering.cli.output import AsJson, print_json, print_table, texts


def watch(
    registries: Annotated[list[Path], typer.Argument(help="Registry files.", show_default=False)],
    sources: Annotated[
        list[Path],
        typer.Option("--sources", metavar="DIR", help="A checkout of a compiler; repeatable."),
    ],
    as_json: AsJson = False,
) -> None:
    """Compare the composites of registries with those that the sources of compilers mention.

    Rows are hints: the sources are searched for names in quotes, and for attributes read near a
    name. The exit code is 1 if there is a difference, and 2 if they cannot be compared.
    """
    with clear_errors(code=2):
        from composites.registry.catalog import load_file

        files: set[Path] = set()
        for folder in sources:
            if not folder.is_dir():
                fail_usage(f"{folder} is not a folder")
            files.update(read := source_files(folder))
            if not read:
                fail_usage(f"{folder} has no source files ({', '.join(sorted(SUFFIXES))})")
        differences = compare_mentions([load_file(path) for path in registries], files)
    if as_json:
        print_json({"differences": [asdict(difference) for difference in differences]})
    else:
        table = Table(*texts("composite", "attribute", "is not in", "place"))
        for row in differences:
            lacking = "the registry" if row.is_missing else "the sources"
            table.add_row(row.composite, row.attribute or "", lacking, Text(row.place))
        table.caption = None if differences else "no differences"
        print_table(table)
    if differences:
        raise typer.Exit(1)
