"""The key `alternatives`, which registry files had before `kernels` held decompositions to choose.

It is read for one version more, as `kernels`. `composites format` writes the new key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import yaml

from composites.errors import Problem, RegistryError
from composites.registry.yaml_text import Path, YamlText, read_yaml

OLD = "alternatives"
NEW = "kernels"

_Edit: TypeAlias = tuple[int, int, str]
"""Two positions in a text, and what is written between them."""


def read_new_keys(written: str, before: YamlText) -> YamlText:
    """The data of a file with the new key in the place of the old one, and the lines as written.

    Args:
        before: the data of the file as it is.

    Raises:
        RegistryError: see `with_new_keys`.
    """
    text = read_yaml(with_new_keys(written, before.file), before.file)
    lines = {path: _line_before(path, before) for path in text.lines}
    return YamlText(text.file, text.data, lines)


def _line_before(path: Path, before: YamlText) -> int:
    """The line of a path before rows of the old key were moved."""
    depth = 2 if path[:1] == ("composites",) else 0
    if path not in before.lines and path[depth : depth + 1] == (NEW,):
        path = (*path[:depth], OLD, *path[depth + 1 :])
    return before.line(path)


def old_keys(text: YamlText) -> list[Problem]:
    """Where a file has the old key, for itself or for an entry."""
    message = f"`{OLD}` is now `{NEW}`, and is not read by the next version"
    message += f"; run: composites format {text.file}"
    paths = [(OLD,), *(path for path in text.lines if path[:1] == ("composites",))]
    return [
        text.problem(message, *path)
        for path in paths
        if path in text.lines and (path == (OLD,) or (len(path) == 3 and path[2] == OLD))
    ]


def with_new_keys(text: str, file: str) -> str:
    """The text of a file with the new key in the place of the old one. Rows of a mapping that has
    both keys are moved.

    Raises:
        RegistryError: these rows cannot be moved.
    """
    root: Any = yaml.compose(text, yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        return text
    if not text.endswith("\n"):
        text += "\n"  # each row that is moved ends its line
    edits = list(_renamed(root, text, file, of_file=True))
    for key, value in root.value:
        if key.value != "composites" or not isinstance(value, yaml.MappingNode):
            continue
        for _, entry in value.value:
            if isinstance(entry, yaml.MappingNode):
                edits += _renamed(entry, text, file, of_file=False)
    for start, end, new in sorted(edits, key=lambda edit: edit[0])[::-1]:
        text = text[:start] + new + text[end:]
    return text


def _renamed(mapping: Any, text: str, file: str, *, of_file: bool) -> Iterator[_Edit]:
    pairs = {key.value: (key, value) for key, value in mapping.value}
    if OLD not in pairs:
        return
    key, old = pairs[OLD]
    if NEW not in pairs:
        yield key.start_mark.index, key.end_mark.index, NEW
        return
    rows = None if mapping.flow_style else _moved(pairs[OLD], pairs[NEW], text, of_file=of_file)
    if rows is None:
        message = f"write the rows of `{OLD}` under `{NEW}`, which is in the same mapping"
        raise RegistryError([Problem(file, key.start_mark.line + 1, None, message)])
    yield from rows
    yield _line_start(text, key), _end(text, old), ""


def _moved(old_pair: Any, new_pair: Any, text: str, *, of_file: bool) -> list[_Edit] | None:
    """Write the rows of one key before those of another, with the comments above them; None if that
    cannot be done. Of a file, rows of one entry may be under both keys."""
    (old_key, old), (new_key, new) = old_pair, new_pair
    nodes = (old, new)
    if not all(isinstance(node, yaml.MappingNode) and node.value for node in nodes):
        return None
    is_aligned = old.start_mark.column == new.start_mark.column
    if old.flow_style != new.flow_style or not (new.flow_style or is_aligned):
        return None
    pairs = {key.value: (key, value) for key, value in new.value}
    edits: list[_Edit] = []
    begin = _next_line(text, old_key)
    for key, value in old.value:
        end = _end(text, value)
        if key.value in pairs:
            pair = (key, value)
            rows = _moved(pair, pairs[key.value], text, of_file=False) if of_file else None
            if rows is None:
                return None
            edits += rows
        elif new.flow_style:
            at = new.start_mark.index + 1
            edits.append((at, at, f"{text[key.start_mark.index : value.end_mark.index]}, "))
        else:
            at = _next_line(text, new_key)
            edits.append((at, at, text[begin:end]))
        begin = end
    return edits


def _next_line(text: str, node: Any) -> int:
    return text.find("\n", node.end_mark.index) + 1


def _line_start(text: str, node: Any) -> int:
    return text.rfind("\n", 0, node.start_mark.index) + 1


def _end(text: str, node: Any) -> int:
    """Behind the last line of a node. PyYAML ends a block where the next key begins."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return text.find("\n", node.end_mark.index) + 1 or len(text)
