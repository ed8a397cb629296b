"""The rows that `--names` chooses."""

from __future__ import annotations

import re
from collections.abc import Iterable


def beginning(names: Iterable[str], beginnings: str) -> list[str]:
    """The names that begin with one of some texts, in their own order.

    Args:
        beginnings: separated by commas. A comma with a space behind it is a part of a name, as in
            "attention, L = 1024". All names begin with an empty text.
    """
    return [name for name in names if name.startswith(tuple(re.split(r",(?! )", beginnings)))]
