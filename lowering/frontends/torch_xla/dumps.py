"""The files to which torch_xla writes its graphs, in the format of torch_xla 2.9.

If an environment variable is set, torch_xla writes every graph that it compiles or runs to a file.
This module imports neither torch nor torch_xla.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_GRAPH = re.compile(
    r"^\[(?P<kind>\w+)\]\n(?:(?!^## ).)*?^## BEGIN_GRAPH\n(?P<text>.*?)\n+"
    r"^Graph Hash: (?P<hash>[0-9a-f]+)\n",
    re.DOTALL | re.MULTILINE,
)
_COMPILED = "dynamo"
"""The kind of an extra record that torch_xla writes for a graph of torch.compile."""


@dataclass(frozen=True, slots=True)
class DumpedGraph:
    """One graph in a dump."""

    hash: str
    text: str
    """StableHLO."""
    compiled: bool
    """True if this record only says that torch.compile built the graph with this hash."""


def dumping_to(path: Path) -> dict[str, str]:
    """The environment variables that make torch_xla write its graphs.

    One file is written for each device ordinal: `PATH.0`, `PATH.1`, …
    """
    return {"XLA_SAVE_TENSORS_FILE": str(path), "XLA_SAVE_TENSORS_FMT": "stablehlo"}


def read_dump(file: Path) -> Iterator[DumpedGraph]:
    """The graphs of one file, in the order in which they ran."""
    for match in _GRAPH.finditer(file.read_text(encoding="utf-8")):
        yield DumpedGraph(match["hash"], match["text"], match["kind"] == _COMPILED)
