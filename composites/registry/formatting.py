"""Rewrite the text of a registry file to its short forms.

The meaning of the text stays the same, and so do comments, blank lines, the order of entries, and
which of them have lines for their keys. Parts of the text are replaced where PyYAML says that they
are. A part with comments inside stays as it is.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from composites.errors import Problem, RegistryError
from composites.functions import has_function
from composites.registry.document import CompositeDocument
from composites.registry.model import split_version
from composites.registry.packages import announced
from composites.registry.pairs import (
    Versions,
    default_backward,
    forwards_of,
    version_of,
    versions_of,
)
from composites.registry.reading import CheckedDocument, read_document
from composites.registry.short_forms import FORWARD
from composites.registry.validation import parse_registry
from composites.registry.yaml_text import registry_text

WIDTH = 100
"""The number of columns of a line. Text that would be longer stays as it is."""


def format_file(path: Path) -> str | None:
    """The text of a file in short forms; None if the file has it already.

    Raises:
        RegistryError: the file is not valid.
    """
    tuple(announced())  # installed packages register operators that the file may name
    text = registry_text(path, newline="")
    short = formatted(text, str(path))
    return None if short == text else short


def formatted(text: str, source: str) -> str:
    """The text in short forms. `source` is the file name for error messages.

    Raises:
        RegistryError: the file is not valid, or its short form does not mean the same.
    """
    registry = parse_registry(text, source)
    document = read_document(text, source)
    newline = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n")
    editor = _Editor(text, _comments(text), document)
    editor.file(yaml.compose(text, yaml.SafeLoader))
    short = editor.edited().replace("\n", newline)
    if parse_registry(short, source) != registry:
        message = (
            "its short form would not mean the same, which is a mistake of `composites format`"
        )
        raise RegistryError([Problem(source, 1, None, message)])
    return short


def _comments(text: str) -> list[int]:
    """The positions of all comments: each `#` between tokens."""
    positions: list[int] = []
    end = 0
    for token in yaml.scan(text, yaml.SafeLoader):
        for line in re.finditer(r"#.*", text[end : token.start_mark.index]):
            positions.append(end + line.start())
        end = max(end, token.end_mark.index)
    return positions


@dataclass(frozen=True, slots=True)
class _Edit:
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class _Editor:
    """Collects the edits of a text."""

    text: str
    comments: Sequence[int]
    document: CheckedDocument
    edits: list[_Edit] = field(default_factory=list)

    def edited(self) -> str:
        text = self.text
        for edit in sorted(self.edits, key=lambda edit: edit.start, reverse=True):
            text = text[: edit.start] + edit.text + text[edit.end :]
        return text

    def file(self, root: Any) -> None:
        versions = versions_of(self.document.entries)
        for key, value in root.value:
            match key.value:
                case "schema":
                    self.put(key, value, "2")
                case "composites":
                    for name, entry in value.value:
                        _Entry(self, name, entry, versions).edit()

    def put(self, key: yaml.Node, value: yaml.Node, text: str) -> None:
        self.edits.append(_Edit(key.end_mark.index, self.end(value), f": {text}"))

    def has_comment(self, key: yaml.Node, value: yaml.Node) -> bool:
        """Return whether a comment is inside of a value, or after its last line if it has
        several."""
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
        """The position after a node. PyYAML puts the end of a block after the comments and the
        blank lines that follow."""
        if not _is_block(node) or not node.value:
            return int(node.end_mark.index)
        last = node.value[-1]
        return self.end(last[1] if isinstance(last, tuple) else last)

    def source(self, node: yaml.Node) -> str:
        return self.text[node.start_mark.index : self.end(node)]

    def in_line(self, node: yaml.Node, *, is_item: bool = False) -> str | None:
        """A node in one line, as it is written inside of `[…]`; None if it cannot be. An item of a
        list that is a mapping with one key needs no braces."""
        if not _is_block(node):
            text = self.source(node)
            is_plain = isinstance(node, yaml.ScalarNode) and node.style is None
            return None if "\n" in text or (is_plain and set("[]{},") & set(text)) else text
        if isinstance(node, yaml.SequenceNode):
            items = [self.in_line(item, is_item=True) for item in node.value]
            return None if None in items else f"[{', '.join(filter(None, items))}]"
        pairs = self.pairs(node)
        if pairs is None:
            return None
        return pairs[0] if is_item and len(pairs) == 1 else f"{{{', '.join(pairs)}}}"

    def pairs(self, node: yaml.Node) -> list[str] | None:
        pairs = [(self.in_line(key), self.in_line(value)) for key, value in node.value]
        return None if any(None in pair for pair in pairs) else [f"{k}: {v}" for k, v in pairs]

    def remove_line(self, key: yaml.Node, value: yaml.Node) -> bool:
        """Remove a key in a line of its own, unless a comment is beside or above it."""
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
        self.edits.append(_Edit(start, end, ""))
        return True


@dataclass(frozen=True, slots=True)
class _Entry:
    """Collects the edits of one entry."""

    editor: _Editor
    name: yaml.ScalarNode
    node: yaml.Node
    versions: Versions

    def edit(self) -> None:
        editor, node = self.editor, self.node
        if isinstance(node, yaml.ScalarNode):
            if self._needs_null():
                editor.put(self.name, node, f"{{op: {editor.source(node)}, backward: null}}")
        elif not _is_block(node):
            self._edit_flow(node)
        else:
            self._edit_block(node)

    def _edit_flow(self, node: yaml.Node) -> None:
        editor = self.editor
        if not editor.is_commented(node.start_mark.index, node.end_mark.index):
            before = [f"{editor.source(key)}: {editor.source(value)}" for key, value in node.value]
            row, parts = self._row(node)
            if parts != before or not row.startswith("{"):
                editor.put(self.name, node, row)
        elif self._needs_null():
            start = node.start_mark.index + 1
            editor.edits.append(_Edit(start, start, "backward: null, "))

    def _row(self, node: yaml.Node) -> tuple[str, list[str]]:
        """The keys of an entry in a row, and each of them with its value."""
        source = self.editor.source
        kept = [(key, value) for key, value in node.value if not self._is_default(key, value)]
        parts = [f"{source(key)}: {self._value(key, value)}" for key, value in kept]
        if self._needs_null():
            parts.append("backward: null")
        if len(parts) == 1 and kept[0][0].value == "op":
            return source(kept[0][1]), parts
        return _written(parts, "{}", self.name), parts

    def _value(self, key: yaml.Node, value: yaml.Node) -> str:
        """The value of a key of an entry in a row."""
        if key.value == "attributes" and isinstance(value, yaml.CollectionNode):
            items = self._items(value)
            if items is not None:
                return self._attributes(items, key)
        return self.editor.source(value)

    def _edit_block(self, node: yaml.Node) -> None:
        editor = self.editor
        for key, value in node.value:
            if self._is_default(key, value) and editor.remove_line(key, value):
                continue
            if key.value == "attributes":
                self._edit_attributes(key, value)
        if self._needs_null():
            after = editor.line_end(editor.end(node))
            indent = " " * node.value[0][0].start_mark.column
            line = f"{indent}backward: null\n"
            ended = editor.text[after - 1] == "\n"
            editor.edits.append(_Edit(after, after, line if ended else f"\n{line}"))

    def _is_default(self, key: yaml.Node, value: yaml.Node) -> bool:
        """Return whether leaving a key out means the same."""
        match key.value:
            case "version":
                named = split_version(self.name.value)[1]
                return version_of(self.name.value, self._entry) == (1 if named is None else named)
            case "decomposition":
                return bool(value.value == "native")
            case "backward":
                return self._entry.backward == default_backward(self.name.value, self.versions)
            case "samples":
                default = self.editor.document.default_samples(self.name.value)
                return bool(value.value == default) and has_function(value.value)
        return False

    @property
    def _entry(self) -> CompositeDocument:
        return self.editor.document.entries[self.name.value]

    def _needs_null(self) -> bool:
        """Return whether the entry has no backward, and would have one by its name."""
        if isinstance(self.node, yaml.MappingNode) and any(
            key.value == "backward" for key, _ in self.node.value
        ):
            return False
        has_default = default_backward(self.name.value, self.versions) is not None
        return self._entry.backward is None and has_default

    def _edit_attributes(self, key: yaml.Node, value: yaml.Node) -> None:
        """Write attributes after their key. Attributes with comments stay as they are."""
        editor = self.editor
        if isinstance(value, yaml.ScalarNode) or editor.has_comment(key, value):
            return
        items = self._items(value)
        text = None if items is None else self._attributes(items, key)
        if text is None or (text != FORWARD and items == self._lines(value)):
            return
        if text != editor.source(value):
            editor.put(key, value, text)

    def _lines(self, value: yaml.Node) -> list[str] | None:
        """The attributes of a mapping as they are written, which may be on lines of their own."""
        source = self.editor.source
        if not isinstance(value, yaml.MappingNode):
            return None
        return [f"{source(key)}: {source(item)}" for key, item in value.value]

    def _attributes(self, items: Sequence[str], key: yaml.Node) -> str:
        """Attributes after `key`: as a list, as a mapping if none is a name alone, or as those of
        the forward if this is shorter."""
        text = _written(items, "[]" if any(map(_is_name, items)) else "{}", key)
        return FORWARD if len(FORWARD) < len(text) and self._are_those_of_forward() else text

    def _items(self, value: yaml.Node) -> list[str] | None:
        """Each attribute as an item of a list; None if one of them needs several lines."""
        items: list[str | None] = []
        for item in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            if isinstance(item, yaml.ScalarNode):
                items.append(self.editor.source(item))
            else:
                items += [self._attribute(*pair) for pair in item.value]
        return None if None in items else [item for item in items if item is not None]

    def _attribute(self, key: yaml.Node, value: yaml.Node) -> str | None:
        """An attribute as an item of a list: its name, and more if it needs more."""
        editor = self.editor
        name = editor.source(key)
        if isinstance(value, yaml.ScalarNode):
            return name if value.value == key.value else f"{name}: {editor.source(value)}"
        pairs = editor.pairs(value)
        if pairs is None:
            return None
        kept = [
            pair
            for pair, (part, argument) in zip(pairs, value.value, strict=True)
            if (part.value, argument.value) != ("from", key.value)
        ]
        return f"{name}: {{{', '.join(kept)}}}" if kept else name

    def _are_those_of_forward(self) -> bool:
        entries, own = self.editor.document.entries, list(self._entry.attributes.items())
        forwards = forwards_of(self.name.value, entries, self.versions)
        return bool(forwards) and all(
            list(entries[forward].attributes.items()) == own for forward in forwards
        )


def _is_block(node: yaml.Node) -> bool:
    """Return whether a node is a mapping or a list with a line for each item."""
    return isinstance(node, yaml.CollectionNode) and not node.flow_style


def _is_name(item: str) -> bool:
    """Return whether an attribute in a list is a name alone."""
    return ":" not in item


def _written(parts: Sequence[str], brackets: str, key: yaml.Node) -> str:
    """A list or a mapping after `key`, in further lines where it is too long for one."""
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
