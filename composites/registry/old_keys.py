"""The old key `alternatives` of registry files, for decompositions that are now under `kernels`.

One more version reads it, as `kernels`. `composites format` writes the new key.
"""

import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from composites.errors import Problem, RegistryError
from composites.registry.yaml_text import Path, YamlText

OLD = "alternatives"
NEW = "kernels"


def old_keys(text: YamlText) -> list[Problem]:
    """Return a problem for each old key of a file, at its top level or in an entry."""
    message = f"`{OLD}` is now `{NEW}`, and is not read by the next version"
    message += f"; run: composites format {shlex.quote(text.file)}"
    paths = [(OLD,), *(path for path in text.lines if path[:1] == ("composites",))]
    return [
        text.problem(message, *path)
        for path in paths
        if path in text.lines and (path == (OLD,) or (len(path) == 3 and path[2] == OLD))
    ]


def read_new_keys(text: YamlText) -> YamlText:
    """Replace the old key by the new key in the data of a file. Lines stay as they are in the
    file.

    Raises:
        RegistryError: a mapping has a name under both keys.
    """
    data = _merged(text.data, (), text)
    entries = data.get("composites")
    if isinstance(entries, dict):
        data["composites"] = {
            name: _merged(entry, ("composites", name), text) if isinstance(entry, dict) else entry
            for name, entry in entries.items()
        }
    lines = dict(text.lines)
    for path, line in text.lines.items():
        depth = 2 if path[:1] == ("composites",) else 0
        if path[depth : depth + 1] == (OLD,):
            lines.setdefault((*path[:depth], NEW, *path[depth + 1 :]), line)
    return YamlText(text.file, data, lines)


def _merged(mapping: Mapping[str, Any], path: Path, text: YamlText) -> dict[str, Any]:
    """Return a mapping of a file with only the new key. Rows of the old key come first."""
    merged = {key: value for key, value in mapping.items() if key != OLD}
    if OLD not in mapping:
        return merged
    old, new = mapping[OLD], merged.get(NEW, {})
    if not (isinstance(old, dict) and isinstance(new, dict)):
        merged.setdefault(NEW, old)
        return merged
    rows = {**old, **new}
    for name in old.keys() & new.keys():
        parts = old[name], new[name]
        is_top_level = not path and all(isinstance(part, dict) for part in parts)
        if not is_top_level or parts[0].keys() & parts[1].keys():
            raise RegistryError([_by_hand(text.file, text.line((*path, OLD)))])
        rows[name] = parts[0] | parts[1]
    merged[NEW] = rows
    return merged


def with_new_keys(text: str, file: str) -> str:
    """Replace the old key by the new key in the text of a file.

    Raises:
        RegistryError: a mapping has both keys.
    """
    root: Any = yaml.compose(text, yaml.SafeLoader)
    mappings = [root]
    for key, value in root.value:
        if key.value == "composites":
            mappings += [entry for _, entry in value.value]
    keys = []
    for mapping in mappings:
        is_mapping = isinstance(mapping, yaml.MappingNode)
        named = {key.value: key for key, _ in mapping.value} if is_mapping else {}
        if OLD in named and NEW in named:
            raise RegistryError([_by_hand(file, named[OLD].start_mark.line + 1)])
        keys += [named[OLD]] if OLD in named else []
    for key in sorted(keys, key=lambda key: -key.start_mark.index):
        text = text[: key.start_mark.index] + NEW + text[key.end_mark.index :]
    return text


def _by_hand(file: str, line: int) -> Problem:
    message = f"write the rows of `{OLD}` under `{NEW}`, which is in the same mapping"
    return Problem(file, line, None, message)
