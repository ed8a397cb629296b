"""What the plots of benchmarks share.

They read on white and on black, and the same numbers give the same file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

GREY = "#888888"
COLOURS = ("#2a78d6", "#1baf7a", "#eda100")
"""Of series, in this order: blue, green, yellow. People who see few colours can tell them apart."""


@contextmanager
def chart(path: Path, size: tuple[float, float]) -> Iterator[Figure]:
    """A figure that is written to `path` at the end of the block."""
    style: dict[Any, str] = {
        "svg.hashsalt": "benchmarks",
        "font.family": "sans-serif",
        "axes.facecolor": "none",
        **dict.fromkeys(
            ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), GREY
        ),
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": None})
