"""The text of composites, here and in another process, which must be the same.

`main` of the other process reads what to record from stdin, as JSON, and prints the digests as the
last line. The parent starts it first, so that both work at the same time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass

from composites.allowlist import resolve
from composites.child_processes import command_of
from composites.decompositions import Words
from composites.frozen import frozen
from composites.registry.catalog import Catalog, load_catalog
from lowering import activation
from lowering.locking import recorded
from lowering.sample_calls import NoCalls
from lowering.verification.graphs import digest
from lowering.verification.targets import (
    Target,
    alternatives_of,
    target_of_function,
    targets_of,
)
from lowering.verification.verify import element_types, select, turned_on

_HASH_SEED = "4711"
"""Another process orders sets of strings in another way."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is verified, so that another process finds it again."""

    registries: tuple[str, ...] | None = None
    """Files; None for those of the environment."""
    entries: tuple[str, ...] = ()
    """Identities."""
    alternatives: Words = ()
    """Entries of which only the alternatives that a word means are verified."""
    functions: tuple[str, ...] = ()
    samples: str | None = None
    count: int = 1
    dtypes: tuple[str, ...] = ()

    def targets(self) -> tuple[Target, ...]:
        """What is to be verified.

        Raises:
            CompositesError: it cannot be found.
        """
        catalog = load_catalog(self.registries, in_place=self.registries is not None)
        entries = [e for name in self.entries for e in resolve([name], catalog)]
        wanted = [entry for entry in dict.fromkeys(entries) if entry.identity in self.entries]
        functions = (target_of_function(name, self.samples) for name in self.functions)
        whole = targets_of(wanted, catalog)
        labels = {target.label for target in whole}
        chosen = alternatives_of(self.alternatives, catalog)
        return (*whole, *(t for t in chosen if t.label not in labels), *functions)


def digests(request: Request) -> dict[str, str]:
    """A hash of the composites of the first sample of each target that can be recorded."""
    catalog = load_catalog(request.registries, in_place=request.registries is not None)
    found: dict[str, str] = {}
    with activation.all_off(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for target in request.targets():
            dtypes = element_types(target, request.dtypes)
            # What fails here fails when the entry is verified, with a message.
            with suppress(Exception):
                found[target.label] = _digest(target, catalog, dtypes[0])
    return {name: text for name, text in found.items() if text}


def _digest(target: Target, catalog: Catalog, dtype: str) -> str:
    frontend = activation.backend().frontend
    found = select(target, catalog, frontend, dtype, 1)
    if isinstance(found, NoCalls):
        return ""
    with turned_on(target, catalog):
        return digest(recorded(frontend, found.samples[0], None if target.is_backward else 1))


def start(request: Request) -> subprocess.Popen[str]:
    """Start the other process."""
    process = subprocess.Popen(
        command_of(__name__),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": _HASH_SEED},
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(asdict(request)))
    process.stdin.close()
    process.stdin = None
    return process


def digests_of(process: subprocess.Popen[str]) -> dict[str, str]:
    """What the other process found; empty if it failed."""
    output, _ = process.communicate()
    lines = output.splitlines()
    return dict(json.loads(lines[-1])) if process.returncode == 0 and lines else {}


def read_request(text: str) -> Request:
    """The request that the parent wrote."""
    data = json.loads(text)
    lists = {key: frozen(value) for key, value in data.items() if isinstance(value, list)}
    return Request(**{**data, **lists})


def main() -> None:
    """What the other process does."""
    print(json.dumps(digests(read_request(sys.stdin.read()))))
