"""The programs that JAX compiles, as JAX writes them to files. Reading them imports no JAX."""

from collections.abc import Mapping
from pathlib import Path


def dumping_to(folder: Path) -> Mapping[str, str]:
    """Environment variables that make JAX write each compiled program to a folder."""
    return {"JAX_DUMP_IR_TO": str(folder), "JAX_DUMP_IR_MODES": "stablehlo"}


def read_dumps(folder: Path) -> list[str]:
    """The programs as StableHLO text, in the order in which they were compiled."""
    return [file.read_text(encoding="utf-8") for file in sorted(folder.glob("*_compile.mlir"))]
