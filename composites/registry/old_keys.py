"""The key `alternatives`, which registry files had before `kernels` held decompositions to choose.

It is read for one version more, as `kernels`. `composites format` writes the new key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import yaml

from composites.errors import Problem, RegistryError
from composites.registry.yaml_text import Path, YamlText

OLD = "alternatives"
NEW = "kernels"


@dataclass(frozen=True, slots=True)
class Renamed:
    """A file with the new key in the place of the old one."""

    text: YamlText
    """The data, and the lines of what it says, under the new key."""
    outdated: list[Problem]
    """Where the old key is."""
    problems: list[Problem]


def with_new_keys(text: YamlText, file: str) -> Renamed:
    """Read `alternatives` of entries, and that of the file, as `kernels`. Mistakes in what the keys
    hold are left for `document`."""
    if not isinstance(text.data, dict):
        return Renamed(text, [], [])
    writer = _Writer(YamlText(dict(text.data), dict(text.lines)), file)
    writer.file_key()
    composites = text.data.get("composites")
    if isinstance(composites, dict):
        entries = {name: writer.entry(name, entry) for name, entry in composites.items()}
        writer.text.data["composites"] = entries
    return Renamed(writer.text, writer.outdated, writer.problems)


@dataclass(frozen=True, slots=True)
class _Writer:
    text: YamlText
    file: str
    outdated: list[Problem] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def entry(self, name: str, entry: Any) -> Any:
        if not isinstance(entry, dict) or OLD not in entry:
            return entry
        return self._renamed(entry, ("composites", name), name)

    def file_key(self) -> None:
        data = self.text.data
        if OLD in data:
            renamed = self._renamed(data, (), None)
            data.clear()
            data.update(renamed)

    def _renamed(self, mapping: dict[str, Any], path: Path, entry: str | None) -> dict[str, Any]:
        """A mapping with the new key, and perhaps what that key has already."""
        message = (
            f"`{OLD}` is now `{NEW}`, and is not read by the next version; run: composites format"
            f" {self.file}"
        )
        self.outdated.append(Problem(self.file, self.text.line((*path, OLD)), entry, message))
        self._copy_lines(mapping[OLD], (*path, OLD), (*path, NEW))
        rest = {key: value for key, value in mapping.items() if key != OLD}
        old, new = mapping[OLD], rest.get(NEW, {})
        rest[NEW] = self._merged(old, new, (*path, OLD), entry)
        return rest

    def _copy_lines(self, value: Any, before: Path, after: Path) -> None:
        """Give what is under one path the same lines under another."""
        self.text.lines.setdefault(after, self.text.line(before))
        parts: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict):
            parts = value.items()
        elif isinstance(value, list):
            parts = enumerate(value)
        for key, part in parts:
            self._copy_lines(part, (*before, key), (*after, key))

    def _merged(self, old: Any, new: Any, path: Path, entry: str | None) -> Any:
        """The rows of both keys. Of a file, those for one entry may be under both."""
        if not isinstance(old, dict) or not new:
            return old
        if not isinstance(new, dict):
            self._problem(path, entry, f"write these rows where `{NEW}` has its own")
            return new
        merged = dict(old)
        for name, row in new.items():
            if name not in old:
                merged[name] = row
            elif len(path) == 1:  # of the file: a name is that of an entry
                merged[name] = self._merged(old[name], row, (*path, name), entry)
            else:
                self._problem((*path, name), entry, f"{name!r} is under `{NEW}` too")
        return merged

    def _problem(self, path: Path, entry: str | None, message: str) -> None:
        message = f"{OLD}: {message}"
        self.problems.append(Problem(self.file, self.text.line(path), entry, message))


# ---- the text of a file ----


def text_with_new_keys(text: str, source: str) -> str:
    """The text of a valid file with the new key in the place of the old one. `source` is the file
    name for error messages.

    Raises:
        RegistryError: a mapping has both keys, and one of them is in one line.
    """
    root: Any = yaml.compose(text, yaml.SafeLoader)
    edits = list(_edits(root, text, source))
    for key, value in root.value:
        for _, entry in value.value if key.value == "composites" else ():
            edits += _edits(entry, text, source)
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _edits(mapping: yaml.Node, text: str, source: str) -> Iterator[tuple[int, int, str]]:
    """Positions in the text, and what is written between them."""
    if not isinstance(mapping, yaml.MappingNode):
        return
    pairs = {key.value: (key, value) for key, value in mapping.value}
    if OLD not in pairs:
        return
    key, old = pairs[OLD]
    new = pairs[NEW][1] if NEW in pairs else None
    if new is None:
        yield key.start_mark.index, key.end_mark.index, NEW
        return
    if old.flow_style or new.flow_style or old.start_mark.column != new.start_mark.column:
        message = f"write the rows of `{OLD}` under `{NEW}` of the same mapping"
        raise RegistryError([Problem(source, key.start_mark.line + 1, None, message)])
    lines = text.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    first, last = old.start_mark.line, old.value[-1][1].end_mark.line
    if old.value[-1][1].end_mark.column:  # in the last line, and not behind it
        last += 1
    yield starts[key.start_mark.line], starts[last], ""
    at = starts[new.start_mark.line]
    yield at, at, "".join(lines[first:last])
