"""Cases in text files, whose last part is what is expected.

    === title of a case
    lines of a part without a name
    --- name of another part
    its lines

COMPOSITES_WRITE_GOLDEN=1 writes actual lines over expected ones. In an expected line, `…` stands
for any text.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

Parts = Mapping[str, str]
"""The parts of a case, by name."""


def read_cases(path: Path) -> dict[str, dict[str, str]]:
    """Read the parts of each case, by its title."""
    cases = {}
    for case in re.split(r"^=== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, rest = case.partition("\n")
        assert title not in cases, f"{path}: there are two cases {title!r}"
        first, *parts = re.split(r"^--- ", rest, flags=re.MULTILINE)
        named = [part.partition("\n") for part in parts]
        texts = {"": first} | {name: text for name, _, text in named}
        cases[title] = {name: text.strip("\n") + "\n" for name, text in texts.items()}
    return cases


def check_cases(path: Path, produce: Callable[[Parts], str]) -> None:
    """Check that `produce` makes the last part of each case from the others."""
    problems, texts = [], []
    for title, parts in read_cases(path).items():
        last, expected = parts.popitem()
        actual = produce(parts).strip("\n") + "\n"
        if not _is_as_expected(actual, expected):
            problems.append(f"{title}:\n{actual}instead of\n{expected}")
            expected = actual
        written = "".join(map(_written, [*parts.items(), (last, expected)]))
        texts.append(f"=== {title}\n{written}")
    if os.environ.get("COMPOSITES_WRITE_GOLDEN"):
        path.write_text("\n".join(texts), encoding="utf-8")
    assert not problems, "\n".join(problems)


def _written(part: tuple[str, str]) -> str:
    name, text = part
    return f"--- {name}\n{text}" if name else text.lstrip("\n")


def _is_as_expected(actual: str, expected: str) -> bool:
    lines, patterns = actual.splitlines(), expected.splitlines()
    return len(lines) == len(patterns) and all(
        re.fullmatch(re.escape(pattern).replace("…", ".*"), line)
        for line, pattern in zip(lines, patterns, strict=True)
    )
