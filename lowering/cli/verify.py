"""`composites verify`: run entries on samples, and compare with PyTorch and the stock lowering."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Column, Table
from rich.text import Text

from composites.element_types import REGISTRY_TYPES
from composites.errors import AllowlistError, did_you_mean
from composites.files import write_atomic
from composites.registry.model import STOCK
from composites.settings import ALLOWLIST
from lowering.cli.errors import clear_errors, fail_usage
from lowering.cli.output import check_folders, numbers, print_json, print_table
from lowering.verification.results import Check, Finding, Row, Verdict, entry_names, with_verdict

if TYPE_CHECKING:
    from composites.registry.catalog import Catalog
    from lowering.verification.subjects import Subject


def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Entries, as XLA_COMPOSITE_OP names them; alternatives, as"
            " XLA_COMPOSITE_DECOMPOSITION names them (topk=fast); or functions under @composite, as"
            " package.module:function or FILE.py:FUNCTION. Default: all entries.",
            show_default=False,
        ),
    ] = None,
    registry: Annotated[
        Path | None, typer.Option(help="A registry file whose entries are verified.")
    ] = None,
    dtypes: Annotated[str, typer.Option(help="Element types, separated by commas.")] = "f32,bf16",
    count: Annotated[
        int, typer.Option("--samples", min=1, help="Samples of each entry in each element type.")
    ] = 8,
    samples: Annotated[
        str | None,
        typer.Option(
            "--samples-from", help="For functions: package.module:function that yields samples."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    junit: Annotated[Path | None, typer.Option(help="Also write a JUnit XML file.")] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Also fail if an entry could not be verified."),
    ] = False,
) -> None:
    """Run entries on samples, and compare with PyTorch on the CPU and with the stock lowering.

    Samples are those of the entry, or of PyTorch's own tests, or are generated. The exit code is 1
    if an entry fails.
    """
    check_folders(junit)
    with clear_errors(), ALLOWLIST.unset():
        types = _element_types(dtypes)
        catalog, subjects = _subjects(names or [], registry, samples)
        rows = _rows(subjects, catalog, types, count, quiet=as_json)
        if junit is not None:
            write_atomic(junit, junit_text(rows))
        if as_json:
            print_json([asdict(row) | {"verdict": str(row.verdict)} for row in rows])
        else:
            _print(rows)
        failed = with_verdict(rows, Verdict.FAILED)
        unsure = [row for row in rows if _is_unsure(row)] if strict else []
    if failed or unsure:
        raise typer.Exit(1)


def _is_unsure(row: Row) -> bool:
    """Return whether a row was not verified. Notes of attributes that no sample varies are left
    out."""
    return not row.claimed or any(each.check is not Check.ATTRIBUTES for each in row.findings)


def junit_text(rows: Sequence[Row]) -> str:
    """The rows as test cases of JUnit's XML."""
    suite = ElementTree.Element(
        "testsuite",
        name="composites verify",
        tests=str(len(rows)),
        failures=str(len(with_verdict(rows, Verdict.FAILED))),
        skipped=str(len(with_verdict(rows, Verdict.NOT_VERIFIED))),
    )
    for row in rows:
        case = ElementTree.SubElement(
            suite, "testcase", classname=row.entry, name=row.dtype, time=f"{row.seconds:.3f}"
        )
        if row.verdict is not Verdict.VERIFIED:
            tag = "failure" if row.verdict is Verdict.FAILED else "skipped"
            about = [f for f in row.findings if f.is_failure or tag == "skipped"]
            lines = [_line(finding) for finding in about]
            element = ElementTree.SubElement(case, tag, message=lines[0] if lines else tag)
            element.text = "\n".join(lines)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _element_types(text: str) -> tuple[str, ...]:
    types = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in types:
        if name not in REGISTRY_TYPES:
            hint = did_you_mean(name, REGISTRY_TYPES)
            fail_usage(
                f"--dtypes: {name!r} is not an element type{hint} ({', '.join(REGISTRY_TYPES)})"
            )
    return types or fail_usage("--dtypes: name an element type, such as f32")


def _subjects(
    names: list[str], registry: Path | None, samples: str | None
) -> tuple[Catalog, Sequence[Subject]]:
    """The subjects to verify, and their catalog."""
    from composites.allowlist import resolve
    from composites.decompositions import choose
    from composites.registry.catalog import load_catalog
    from lowering.verification.subjects import all_subjects

    files = None if registry is None else (str(registry),)
    functions = tuple(name for name in names if ":" in name)
    alternatives = [name for name in names if ":" not in name and "=" in name]
    named = [name for name in names if ":" not in name and "=" not in name]
    if samples is not None and not functions:
        fail_usage(
            "--samples-from is for functions; an entry of a registry names its own with `samples`"
        )
    catalog = load_catalog(files, in_place=files is not None)
    if named:
        entries = resolve(named, catalog)
    elif functions or alternatives:
        entries = ()
    else:
        entries = tuple(catalog) if files is None else catalog.registries[0].composites
    words = [(item, pair) for item in alternatives for pair in choose(item, catalog)]
    for item, (_, word) in words:
        if word == STOCK:
            fail_usage(f"{item}: name the entry alone to verify its own decomposition")
    if files is not None:
        listed = {entry.identity for entry in catalog.registries[0].composites}
        identities = {*(e.identity for e in entries), *(identity for _, (identity, _) in words)}
        for entry in catalog:
            if entry.identity in identities - listed:
                raise AllowlistError(f"{entry.qualified} is not an entry of {registry}")
    chosen = tuple(dict.fromkeys(pair for _, pair in words))
    return catalog, all_subjects(entries, chosen, functions, samples, catalog)


def _rows(
    subjects: Sequence[Subject], catalog: Catalog, dtypes: Sequence[str], count: int, *, quiet: bool
) -> Sequence[Row]:
    from lowering.verification.verify import verify as verify_subject

    rows: list[Row] = []
    with Progress(console=Console(stderr=True), transient=True, disable=quiet) as progress:
        task = progress.add_task("", total=len(subjects))
        for subject in subjects:
            progress.update(task, description=subject.label)
            rows += verify_subject(subject, catalog, dtypes, count)
            progress.advance(task)
    return rows


def _print(rows: Sequence[Row]) -> None:
    print_table(_table(rows))
    for row in rows:
        for finding, further in _first_of_each(row.findings):
            mark = "failed" if finding.is_failure else "note"
            more = f" (and {further} more)" if further else ""
            typer.echo(f"{mark}: {row.entry} {row.dtype}: {_line(finding)}{more}")
        for reason in row.unclaimed:
            typer.echo(
                f"not claimed: {row.entry} {row.dtype}: {reason.calls} calls: {reason.reason}"
            )
    failed = entry_names(with_verdict(rows, Verdict.FAILED))
    unsure = entry_names(with_verdict(rows, Verdict.NOT_VERIFIED))
    verified = set(entry_names(with_verdict(rows, Verdict.VERIFIED))) - {*failed, *unsure}
    typer.echo(f"{len(verified)} verified, {len(failed)} failed, {len(unsure)} not verified")


def _first_of_each(findings: Sequence[Finding]) -> Iterator[tuple[Finding, int]]:
    """The first finding of each kind, with the number of further findings. `--json` prints all."""
    kinds = Counter((finding.check, finding.is_failure) for finding in findings)
    for finding in findings:
        count = kinds.pop((finding.check, finding.is_failure), 0)
        if count:
            yield finding, count - 1


def _table(rows: Sequence[Row]) -> Table:
    errors = ("forward", "of f64", "gradient", "of f64", "accepted")
    table = Table(
        *(Column(heading, no_wrap=True) for heading in ("entry", "dtype", "samples")),
        *numbers("calls", "left", *errors),
        *(Column(heading, no_wrap=True) for heading in ("bits", "result")),
        title="errors on samples, and the greatest that is accepted",
    )
    bits = {True: "stock's", False: "others", None: "-"}
    for row in rows:
        table.add_row(
            Text(row.entry),
            row.dtype,
            f"{row.samples} {row.source}".strip(),
            str(row.claimed),
            str(sum(reason.calls for reason in row.unclaimed)),
            *map(_error, astuple(row.numbers)),
            _error(row.tolerance),
            bits[row.same_bits],
            str(row.verdict),
        )
    table.caption = (
        "calls: those that became composites; left: those that the entry did not claim; error:"
        " |a - b| / (1 + |b|)"
    )
    return table


def _error(value: float | None) -> str:
    return "-" if value is None else f"{value:.1g}"


def _line(finding: Finding) -> str:
    about = f" [{finding.sample}]" if finding.sample else ""
    return f"{finding.check}: {finding.message}{about}"
