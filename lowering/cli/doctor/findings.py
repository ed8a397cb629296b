"""What the doctor finds, as frozen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    subject: str
    """What was looked at, such as `torch_xla` or `XLA_COMPOSITE_OP`."""
    text: str
    """What was found."""
    advice: str = ""
    """What to do; empty if all is well."""


@dataclass(frozen=True, slots=True)
class ReadRegistry:
    """A registry that was read."""

    source: str
    namespace: str
    entries: int
    package: str | None
    builtin: bool


@dataclass(frozen=True, slots=True)
class Examination:
    """All findings, and what programs that are started here have."""

    findings: Sequence[Finding]
    registries: Sequence[ReadRegistry]
    active: Sequence[str]
    """The entries that were on in a program that did nothing but import torch_xla."""

    def count(self, level: Level) -> int:
        return sum(finding.level == level for finding in self.findings)


def one_line(text: str) -> str:
    """The first line of a message, for a table."""
    return text.strip().partition("\n")[0]
