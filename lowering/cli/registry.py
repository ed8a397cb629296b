"""Commands for registry files: check, list and describe them, and generate code from them."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from composites.contracts.lock import lock_schema
from composites.errors import MissingPackageError, Problem, RegistryError
from composites.files import write_atomic
from composites.registry.document import json_schema
from composites.registry.mentions import SUFFIXES, compare_mentions, source_files
from composites.registry.model import BUILTIN_NAMESPACE, Registry
from composites.settings import ALLOWLIST
from lowering.cli.errors import clear_errors, fail, fail_usage, warn
from lowering.cli.output import AsJson, check_folders, print_json, print_table, texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from composites.registry.catalog import Catalog

RegistryFile = Annotated[Path, typer.Argument(help="A registry file.", show_default=False)]
Check = Annotated[
    bool, typer.Option("--check", help="Write nothing; fail if the file is not up to date.")
]


def codegen(
    registry: RegistryFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="The Python file to write.")],
    check: Check = False,
) -> None:
    """Generate the lowering hooks of a registry."""
    with clear_errors():
        text = _hooks(registry)
        _generated(text, output, ["codegen", registry, "-o", output], check=check)


def docs(
    registry: RegistryFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="The Markdown file to write.")],
    check: Check = False,
) -> None:
    """Write the reference page of a registry: operands, attributes and results of each
    composite."""
    with clear_errors():
        text = _reference(registry)
        _generated(text, output, ["docs", registry, "-o", output], check=check)


def generate(check: Check = False) -> None:
    """Regenerate all generated files of this project. Run it at the root of a checkout."""
    registry = Path("registry.yaml")
    with clear_errors():
        if not registry.is_file():
            fail("there is no registry.yaml here; run this at the root of a checkout")
        sample = Path("tests/codegen/golden/sample.yaml")
        for output, text in (
            (Path("lowering/generated/ptxla.py"), _hooks(registry)),
            (Path("docs/operators.md"), _reference(registry)),
            (Path("docs/registry.schema.json"), json.dumps(json_schema(), indent=2) + "\n"),
            (sample.with_suffix(".py"), _hooks(sample)),
        ):
            _generated(text, output, ["generate"], check=check)


def check(
    registries: Annotated[list[Path], typer.Argument(help="Registry files.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Check registry files and report all problems.

    Each file replaces an installed registry of its namespace. If torch_xla is installed, each entry
    is also turned on, and its operator is called if an example call can be guessed.
    """
    with clear_errors(), ALLOWLIST.unset():
        if as_json:
            _print_findings(registries)
            return
        for text in _remarks(registries):
            warn(text)
    typer.echo(f"{_files(len(registries))} checked, no problems found")


def format_files(
    registries: Annotated[list[Path], typer.Argument(help="Registry files.", show_default=False)],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a file would change.")
    ] = False,
) -> None:
    """Rewrite registry files to their short forms.

    Comments, blank lines and the order of entries stay. A file is written if it is valid and its
    meaning does not change; if one of several files is not valid, none is written.
    """
    with clear_errors():
        from composites.registry.formatting import format_file

        changed = {path: new for path in registries if (new := format_file(path)) is not None}
        if check and changed:
            names = shlex.join(map(str, changed))
            fail(f"not in short form: {names}; run: composites format {names}")
        for path, text in changed.items():
            write_atomic(path, text)
    unchanged = f"{_files(len(set(registries)) - len(changed))} in short form"
    typer.echo(f"{_files(len(changed))} rewritten, {unchanged} already" if changed else unchanged)


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _remarks(registries: Sequence[Path]) -> Sequence[str]:
    """The warnings of `composites check`.

    Raises:
        RegistryError: a file has problems.
    """
    from composites.registry.catalog import load_catalog
    from composites.registry.contracts import check_kernels_for_others

    catalog = load_catalog([str(path) for path in registries], in_place=True)
    named = [r for r in catalog.registries if r.package is None and not r.builtin]
    warnings = [*catalog.warnings(), *check_kernels_for_others(named, catalog.registries)]
    return [*warnings, *_tried(named, catalog)]


def _print_findings(registries: Sequence[Path]) -> None:
    """Print the findings of `check` as JSON. The exit code is the same as for text."""
    remarks: Sequence[str] = ()
    problems: Sequence[Problem] = ()
    try:
        remarks = _remarks(registries)
    except RegistryError as error:
        problems = error.problems
    rows = [asdict(problem) for problem in problems]
    print_json({"problems": rows, "warnings": [*remarks]})
    if problems:
        raise typer.Exit(1)


def _tried(named: Sequence[Registry], catalog: Catalog) -> tuple[str, ...]:
    """Turn the entries of the files that the user named on and off again."""
    from lowering.trial import try_entries

    try:
        report = try_entries(named, catalog)
    except MissingPackageError as error:
        return (f"whether the entries can be turned on was not checked: {error}",)
    if report.problems:
        raise RegistryError(report.problems)
    return report.remarks


def list_entries(
    as_json: AsJson = False,
    kernels: Annotated[
        bool, typer.Option("--kernels", help="List the kernels for composites instead.")
    ] = False,
) -> None:
    """List all entries, including those of vendors, and mark those that XLA_COMPOSITE_OP turns on.

    The exit code is 1 if the registry of an installed package cannot be used. `composites docs
    FILE` writes a description of all entries of a file.
    """
    with clear_errors():
        from composites.allowlist import resolve, split_allowlist
        from composites.registry.catalog import load_catalog
        from lowering.cli import listing

        catalog = load_catalog()
        for text in catalog.warnings():
            warn(text)
        on = resolve(split_allowlist(ALLOWLIST.read()), catalog)
        entries = listing.ListedEntries(listing.listed(catalog, on), catalog.left_out)
        rows = listing.listed_kernels(catalog) if kernels else []
    if as_json:
        print_json(asdict(listing.Kernels(rows) if kernels else entries))
    elif kernels:
        print_table(listing.kernels_table(rows))
    else:
        print_table(listing.listing_table(entries.composites))
    if catalog.left_out:
        raise typer.Exit(1)


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


def schema(
    command: Annotated[
        str | None,
        typer.Argument(
            metavar="[COMMAND]",
            help="Print the schema of the JSON that this command writes, of the manifest.json of a"
            " program, or of node-data.",
        ),
    ] = None,
    lock: Annotated[bool, typer.Option("--lock", help="Print the schema of locks.")] = False,
) -> None:
    """Print the JSON Schema of registry files, for editors, or of the output of a command.

    Example: composites schema inspect
    """
    if command is None:
        print_json(lock_schema() if lock else json_schema())
        return
    from lowering.cli.schemas import OUTPUTS, output_schema

    if command not in OUTPUTS or lock:
        missing = "--lock takes no COMMAND" if lock else f"there is no schema for {command!r}"
        fail_usage(f"{missing}; name one of {', '.join(OUTPUTS)}, or --lock alone")
    with clear_errors():
        print_json(output_schema(command))


def _hooks(registry: Path) -> str:
    from composites.registry.catalog import load_file
    from lowering.codegen.source import generate

    loaded = load_file(registry)
    # The namespace tells whether it is builtin: an installed package has a copy of the file.
    return generate(replace(loaded, builtin=loaded.namespace == BUILTIN_NAMESPACE), registry.name)


def _reference(registry: Path) -> str:
    from composites.registry.catalog import load_file
    from composites.registry.reference import reference

    return reference(load_file(registry), registry.name)


def _generated(text: str, output: Path, command: Sequence[str | Path], *, check: bool) -> None:
    """Write a generated file. With `check`, fail if the existing file differs.

    Args:
        command: the arguments of `composites` that write the file.
    """
    if output.exists() and output.read_text(encoding="utf-8") == text:
        return
    if check:
        fail(f"{output} is stale; run: composites {shlex.join(map(str, command))}")
    check_folders(output)
    write_atomic(output, text)
