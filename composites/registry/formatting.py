"""Rewrite the text of a registry file to its short forms.

The text keeps its meaning, comments, blank lines and order of entries, and an entry with a line for
each key keeps these lines. Parts of the text are replaced at the positions that PyYAML reports. A
part that contains comments is not changed.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from composites.errors import Problem, RegistryError
from composites.functions import has_function
from composites.registry.document import FORWARD
from composites.registry.model import split_version
from composites.registry.old_keys import with_new_keys
from composites.registry.packages import announced
from composites.registry.pairs import (
    Versions,
    default_backward,
    forwards_of,
    version_of,
    versions_of,
)
from composites.registry.reading import CheckedDocument, read_document
from composites.registry.validation import parse_registry
from composites.registry.yaml_text import registry_text

WIDTH = 100
"""The greatest length of a line. Text that would be longer is not changed."""


def format_file(path: Path) -> str | None:
    """Return the text of a file in short forms; None if the file already has this text.

    Raises:
        RegistryError: the file is not valid.
    """
    tuple(announced())  # installed packages register operators that the file may name
    text = registry_text(path, newline="")
    short = formatted(text, str(path))
    return None if short == text else short


def formatted(text: str, source: str) -> str:
    """Rewrite text in short forms. `source` is the file name for error messages.

    Raises:
        RegistryError: the file is not valid, or its short form has another meaning.
    """
    registry = parse_registry(text, source)
    document = read_document(text, source)
    newline = "\r\n" if "\r\n" in text else "\n"
    text = with_new_keys(text.replace("\r\n", "\n"), source)
    editor = _Editor(text, _comments(text), document, versions_of(document.entries))
    editor.file(yaml.compose(text, yaml.SafeLoader))
    short = editor.edited().replace("\n", newline)
    if parse_registry(short, source) != registry:
        message = "its short form would have another meaning, which is a bug of `composites format`"
        raise RegistryError([Problem(source, 1, None, message)])
    return short


def _comments(text: str) -> list[int]:
    """Return the positions of all comments: each `#` between tokens."""
    positions: list[int] = []
    end = 0
    for token in yaml.scan(text, yaml.SafeLoader):
        for line in re.finditer(r"#.*", text[end : token.start_mark.index]):
            positions.append(end + line.start())
        end = max(end, token.end_mark.index)
    return positions


@dataclass(frozen=True, slots=True)
class _Editor:
    """Collects edits of a text."""

    text: str
    comments: Sequence[int]
    document: CheckedDocument
    versions: Versions
    edits: list[tuple[int, int, str]] = field(default_factory=list)
    """Start, end, and the new text of each edit. Edits do not overlap."""

    def edited(self) -> str:
        text = self.text
        for start, end, new in sorted(self.edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def file(self, root: Any) -> None:
        for key, value in root.value:
            if key.value == "schema" and self.has_default_backwards:
                self.put(key, value, "2")
            elif key.value == "composites":
                for name, entry in value.value:
                    if isinstance(entry, yaml.MappingNode):
                        self.entry(name, entry)

    @property
    def has_default_backwards(self) -> bool:
        """True if schema 2 changes the backward of no entry."""
        return not any(
            "backward" not in entry.model_fields_set and default_backward(key, self.versions)
            for key, entry in self.document.entries.items()
        )

    def entry(self, name: yaml.Node, node: yaml.MappingNode) -> None:
        if node.flow_style:
            if not self.is_commented(node.start_mark.index, node.end_mark.index):
                self.row(name, node)
            return
        for key, value in node.value:
            if self.is_default(name.value, key, value) and self.remove_line(key, value):
                continue
            if key.value == "attributes" and not self.has_comment(key, value):
                text = self.attributes(name.value, key)
                if text is not None:
                    self.put(key, value, text)

    def row(self, name: yaml.Node, node: yaml.MappingNode) -> None:
        """Shorten an entry that is written in one row."""
        parts: dict[str, str] = {}
        for key, value in node.value:
            if not self.is_default(name.value, key, value):
                is_list = key.value == "attributes"
                short = self.attributes(name.value, key) if is_list else None
                parts[key.value] = self.source(value) if short is None else short
        if list(parts) == ["op"]:
            self.put(name, node, parts["op"])
        elif parts != {key.value: self.source(value) for key, value in node.value}:
            self.put(name, node, _written([f"{k}: {v}" for k, v in parts.items()], "{}", name))

    def is_default(self, name: str, key: yaml.Node, value: yaml.Node) -> bool:
        """Return True if leaving out a key of an entry does not change its meaning."""
        entry = self.document.entries[name]
        match key.value:
            case "version":
                named = split_version(name)[1]
                return version_of(name, entry) == (1 if named is None else named)
            case "decomposition":
                return bool(value.value == "native")
            case "backward":
                is_default = entry.backward == default_backward(name, self.versions)
                return is_default and self.has_default_backwards
            case "samples":
                default = self.document.default_samples(name)
                return bool(value.value == default) and has_function(value.value)
        return False

    def attributes(self, name: str, key: yaml.Node) -> str | None:
        """Return the attributes of an entry in short form, as text after their key: `forward` if
        the forward has the same attributes and the word is shorter, otherwise a list, or a mapping
        if no attribute is only a name. None if they already have their short form."""
        written = self.document.text.data["composites"][name]["attributes"]
        if isinstance(written, str):
            return None
        listed = [written] if isinstance(written, dict) else written
        mappings = ({item: item} if isinstance(item, str) else item for item in listed)
        rests = {n: _rest(n, value) for mapping in mappings for n, value in mapping.items()}
        items = [n if rest is None else {n: rest} for n, rest in rests.items()]
        has_names = None in rests.values()
        text = _written(list(map(_item, items)), "[]" if has_names else "{}", key)
        if len(FORWARD) < len(text) and self.has_attributes_of_forward(name):
            return FORWARD
        return None if written == (items if has_names else rests) else text

    def has_attributes_of_forward(self, name: str) -> bool:
        entries = self.document.entries
        own = list(entries[name].attributes.items())
        forwards = forwards_of(name, entries, self.versions)
        return bool(forwards) and all(list(entries[f].attributes.items()) == own for f in forwards)

    def put(self, key: yaml.Node, value: yaml.Node, text: str) -> None:
        self.edits.append((key.end_mark.index, self.end(value), f": {text}"))

    def has_comment(self, key: yaml.Node, value: yaml.Node) -> bool:
        """Return True if a comment is inside a value, or after the last line of a value of several
        lines."""
        end = self.end(value)
        if "\n" in self.text[key.start_mark.index : end]:
            end = self.line_end(end)
        return self.is_commented(key.start_mark.index, end)

    def is_commented(self, start: int, end: int) -> bool:
        first = bisect_left(self.comments, start)
        return first < len(self.comments) and self.comments[first] < end

    def line_start(self, position: int) -> int:
        return self.text.rfind("\n", 0, position) + 1

    def line_end(self, position: int) -> int:
        newline = self.text.find("\n", position)
        return len(self.text) if newline < 0 else newline + 1

    def end(self, node: yaml.Node) -> int:
        """Return the position after a node. PyYAML's own end of a block is after the comments and
        blank lines that follow it."""
        if not isinstance(node, yaml.CollectionNode) or node.flow_style or not node.value:
            return int(node.end_mark.index)
        last = node.value[-1]
        return self.end(last[1] if isinstance(last, tuple) else last)

    def source(self, node: yaml.Node) -> str:
        return self.text[node.start_mark.index : self.end(node)]

    def remove_line(self, key: yaml.Node, value: yaml.Node) -> bool:
        """Remove a key that has its own line, unless a comment is beside or above it."""
        start = self.line_start(key.start_mark.index)
        end = self.line_end(self.end(value))
        alone = self.text[start : key.start_mark.index].isspace()
        above = self.line_start(start - 1)
        if (
            not alone
            or self.text[start:end].count("\n") > 1
            or self.text[self.end(value) : end].strip()
            or self.text[above:start].lstrip().startswith("#")
        ):
            return False
        self.edits.append((start, end, ""))
        return True


def _rest(name: str, value: Any) -> Any:
    """Return the value of an attribute in a list; None if its name is enough."""
    if isinstance(value, dict):
        value = {key: part for key, part in value.items() if (key, part) != ("from", name)}
    return None if value in (name, {}) else value


def _item(item: str | Mapping[str, Any]) -> str:
    """Write an item of a list. A mapping with one key needs no braces."""
    text: str = yaml.safe_dump(
        item, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000
    )
    text = text.removesuffix("\n").removesuffix("\n...")
    return text if isinstance(item, str) else text[1:-1]


def _written(parts: Sequence[str], brackets: str, key: yaml.Node) -> str:
    """Write a list or a mapping after `key`, in several lines if it is too long for one."""
    column: int = key.start_mark.column
    indent = f"\n{' ' * (column + 2)}"
    room = WIDTH - key.end_mark.column - len(": ")
    text = brackets[0]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        word = part + (brackets[1] if last else ",")
        if number and len(text.rpartition("\n")[2]) + 1 + len(word) > room:
            text, room = f"{text}{indent}{word}", WIDTH
        else:
            text += f" {word}" if number else word
    return text if parts else brackets
