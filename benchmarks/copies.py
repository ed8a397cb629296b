"""How many functions of transformers each entry with `copies` catches.

    python -m benchmarks.copies [--all]

The modules of the installed transformers that hold the code of a named function are imported, and
searched as they are when the entries are on. Those that need packages that are not installed are
listed. `--all` lists the copies.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from composites.registry.catalog import load_catalog
from lowering.copies.search import Copy, copies_everywhere


def report(copies: Sequence[Copy], missing: Sequence[str], *, every: bool) -> Iterator[str]:
    """The lines to print."""
    counts = Counter(entry.name for copy in copies for entry in copy.entries)
    for name, count in counts.most_common():
        yield f"{name}: {count} functions"
        if every:
            caught = (c.target for c in copies for entry in c.entries if entry.name == name)
            yield from sorted(f"  {target}" for target in caught)
    yield from (f"not searched: {line}" for line in missing)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="list the copies")
    options = parser.parse_args()
    copies, missing = copies_everywhere(load_catalog())
    print(f"transformers {version('transformers')}")
    print("\n".join(report(copies, missing, every=options.all)))


if __name__ == "__main__":
    main()
