"""The calls and whole training steps that the alternatives are measured with, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml

from benchmarks import training_steps
from benchmarks.cases import BOTH, UPDATE, Case, Mode, Update, parse_case
from benchmarks.training_steps import Training

ALL = ("all",)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A program to run, and the bars that the alternatives are expected to reach beside stock."""

    name: str
    entries: tuple[str, ...]
    """Names of the entries that are on."""
    measured: Case | Update | Training
    faster: float | None = None
    """Stock's time to that of `fast`, at least."""
    smaller: float | None = None
    """Memory of `fast` to stock's, at most."""
    compiles: float | None = None
    """Compile time of `fast` to stock's, at most."""
    stock: bool = True
    """True if stock can run the case, which may need more memory than there is."""
    on_cpu: Update | None = None
    """The update that PyTorch runs on the CPU beside the case, if it is not the same."""
    mode: Mode = BOTH


PARAMETERS = (
    *((50257, 384), (512, 384)),
    *((384, 1152), (1152,), (384, 384), (384,), (384, 1536), (1536,), (1536, 384), (384,)) * 4,
    *((384,), (384,)) * 9,
)
"""26 million, in 52 tensors: GPT-2 of four layers."""


def _adamw(name: str, entry: str) -> Comparison:
    stock, fused = (
        Update(partial(torch.optim.AdamW, lr=1e-3, fused=fused), PARAMETERS)
        for fused in (False, True)
    )
    return Comparison(name, (entry,), stock, faster=1.8, on_cpu=fused, mode=UPDATE)


def _call(name: str, *, entry: str | None = None, **row: Any) -> Comparison:
    """A row of `calls` in the YAML file."""
    own = {key: row.pop(key) for key in Comparison.__slots__ if key in row}
    return Comparison(name, (entry or name.partition(" ")[0],), parse_case(**row), **own)


def _step(name: str, *, build: str, arguments: Sequence[Any] = (), **bars: Any) -> Comparison:
    """A training step with everything on."""
    step = Training(partial(getattr(training_steps, build), *arguments))
    return Comparison(f"step of {name}", ALL, step, **bars, mode=UPDATE)


_FILE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
ROWS: tuple[Comparison, ...] = (
    *(_call(name, **row) for name, row in _FILE["calls"].items()),
    _adamw("AdamW, 26 million", "adamw"),
    _adamw("AdamW in one, 26 million", "fused_adamw"),
    *(_step(name, **row) for name, row in _FILE["steps"].items()),
    *(
        _step(f"small {name}", build="architecture", arguments=[name], faster=0.98)
        for name in _FILE["small steps"]
    ),
)
