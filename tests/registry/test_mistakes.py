"""What a vendor sees for a wrong registry file: files, and the exact messages for each.

`golden/mistakes.txt` has them. COMPOSITES_WRITE_GOLDEN=1 writes the messages again:

    COMPOSITES_WRITE_GOLDEN=1 pytest tests/registry/test_mistakes.py
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from composites.errors import RegistryError
from composites.registry.validation import load_registry, parse_registry

GOLDEN = Path(__file__).parent / "golden" / "mistakes.txt"
TITLE, MESSAGES = "=== ", "--- messages\n"


def cases(golden: str) -> Iterator[tuple[str, str, str]]:
    """The title of each case, its registry file, and its messages."""
    for case in re.split(f"^{TITLE}", golden, flags=re.MULTILINE)[1:]:
        title, _, rest = case.partition("\n")
        text, _, messages = rest.partition(MESSAGES)
        yield title, text, messages.strip("\n")


def problems(text: str) -> str:
    try:
        parse_registry(text, "acme.yaml")
    except RegistryError as error:
        return "\n".join(map(str, error.problems))
    return "no problem"


def test_messages() -> None:
    golden = GOLDEN.read_text(encoding="utf-8")
    now = [(title, text, problems(text)) for title, text, _ in cases(golden)]
    written = "\n".join(f"{TITLE}{title}\n{text}{MESSAGES}{found}\n" for title, text, found in now)
    if os.environ.get("COMPOSITES_WRITE_GOLDEN"):
        GOLDEN.write_text(written, encoding="utf-8")
    changed = [
        f"{title}:\n{found}\ninstead of\n{expected}"
        for (title, _, expected), (_, _, found) in zip(cases(golden), now, strict=True)
        if expected != found
    ]
    assert not changed, "\n\n".join(changed)
    assert written == GOLDEN.read_text(encoding="utf-8")


def test_an_operator_without_default_overload() -> None:
    text = "schema: 1\nnamespace: acme\ncomposites: {e: {op: aten::std_mean.nope}}\n"
    start = "acme.yaml:3: e: operator aten::std_mean has no overload nope (known: "
    assert problems(text).startswith(start)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=r"nowhere\.yaml:1: cannot be read: No such file"):
        load_registry("nowhere.yaml")
    with pytest.raises(RegistryError, match="cannot be read: embedded null"):
        load_registry("a\0.yaml")
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RegistryError, match="is not UTF-8 text"):
        load_registry(path)
