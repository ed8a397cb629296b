"""Commands for contracts over time: `lock` a registry, and `diff` two locks or registries."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from composites.contracts.changes import Change, Effect, broken, changes, following
from composites.contracts.lock import lock_text, read_lock, write_lock
from composites.contracts.model import Lock
from composites.errors import LockError
from composites.settings import ALLOWLIST
from lowering.cli.errors import clear_errors, fail, warn
from lowering.cli.output import check_folders, print_json

_REGISTRY_SUFFIXES = (".yaml", ".yml")


def lock(
    registry: Annotated[Path, typer.Argument(help="A registry file.", show_default=False)],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The lock to write, such as registry.lock.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if the lock is not up to date.")
    ] = False,
    same_meaning: Annotated[
        list[str] | None,
        typer.Option(
            "--same-meaning",
            metavar="COMPOSITE",
            help="A changed composite whose meaning is the same; repeatable.",
        ),
    ] = None,
) -> None:
    """Record the contracts of a registry: operands, attributes, results, versions, decompositions.

    If the lock exists and a meaning changed under the same version, nothing is written. Raise
    `version` of these entries; or, if kernels for the old form are still correct, as after a
    rewrite of a decomposition, name the composites with --same-meaning.
    """
    with clear_errors():
        check_folders(output)
        new = _make_lock(registry)
        old = read_lock(output) if output.is_file() else None
        differences = () if old is None else changes(old, new)
        unknown = [change for change in differences if change.verdict is Effect.UNKNOWN]
        for change in unknown:
            warn(f"{change.subject}: {change.what}")
        if old is not None:
            _refuse(differences, new, registry, output, same_meaning or [])
            new = following(old, new)
        if check:
            is_comparable = old is not None and old.made_with == new.made_with
            same = old is not None and len(unknown) == len(differences)
            if not same or (is_comparable and output.read_text(encoding="utf-8") != lock_text(new)):
                command = shlex.join(["composites", "lock", str(registry), "-o", str(output)])
                fail(f"{output} is stale; run: {command}")
            return
        write_lock(new, output)
        bare = [contract for contract in new.contracts if contract.no_call]
        count = len(new.contracts)
        typer.echo(f"{output}: {count} contracts, {count - len(bare)} with a decomposition's hash")
        for contract in bare:
            typer.echo(f"  {contract.label}: {contract.no_call}")


def diff(
    old: Annotated[Path, typer.Argument(help="The older registry file or lock.")],
    new: Annotated[Path, typer.Argument(help="The newer registry file or lock.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the changes between two registry files or locks, and their effect on old kernels.

    A file that ends in .yaml or .yml is a registry, any other a lock. The exit code is 1 if a
    meaning changed and `version` did not.
    """
    with clear_errors():
        differences = changes(_read(old), _read(new))
        needed = broken(differences)
        if as_json:
            print_json({"changes": [asdict(c) for c in differences], "compatible": not needed})
        else:
            for change in differences:
                typer.echo(str(change))
            if not differences:
                typer.echo("no changes")
        if needed:
            fail(_needs(needed))


def _read(path: Path) -> Lock:
    return _make_lock(path) if path.suffix in _REGISTRY_SUFFIXES else read_lock(path)


def _make_lock(path: Path) -> Lock:
    """Make the lock of a registry file, which replaces an installed registry of its namespace."""
    from composites.registry.catalog import load_catalog
    from lowering.locking import lock_registry

    with ALLOWLIST.unset():
        catalog = load_catalog([str(path)], in_place=True)
        return lock_registry(catalog.registries[0], catalog)


def _refuse(
    differences: Sequence[Change],
    new: Lock,
    registry: Path,
    output: Path,
    same_meaning: Sequence[str],
) -> None:
    """Fail if the newer lock breaks the older lock, except for composites that the user names."""
    needed = broken(differences)
    names = {contract.composite for contract in new.contracts}
    for name in same_meaning:
        if name not in names:
            raise LockError(f"--same-meaning {name}: {registry} has no composite of this name")
    unnamed = [change for change in needed if change.composite not in same_meaning]
    if unnamed:
        lines = "".join(f"\n  {change}" for change in unnamed)
        raise LockError(
            f"{_needs(unnamed)}; or, if kernels for the old form are still right, write the lock"
            f" with --same-meaning COMPOSITE. {output} was not changed:{lines}"
        )


def _needs(needed: Sequence[Change]) -> str:
    subjects = ", ".join(dict.fromkeys(f"{c.subject} (now {c.version})" for c in needed))
    return f"the meaning changed and `version` was not raised; raise it for {subjects}"
