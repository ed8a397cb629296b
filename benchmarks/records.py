"""Files of JSON lines, by which a benchmark that was ended goes on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any


def read(path: Path | None) -> list[dict[str, Any]]:
    """The records of an earlier run; none without a file."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def append(path: Path | None, rows: Iterable[Any]) -> None:
    """Write dataclasses at the end of the file."""
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(row)) + "\n" for row in rows)
