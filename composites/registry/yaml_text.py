"""YAML text to plain data, with the line of every key. Only this module reads YAML.

Only the safe constructors of YAML 1.1 run, so no tag can create an object. A duplicate key is an
error; PyYAML alone would keep the last value. Anchors, aliases and merge keys are rejected: a
registry does not need them, and a few nested ones expand to gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from composites.errors import Problem, RegistryError

_PLAIN_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class YamlText:
    """Plain data, and the 1-based line of each key and list item."""

    data: Any
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """The line of `path`, or of its closest parent that has one."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_yaml(text: str, file: str) -> YamlText:
    """Parse `text`.

    Raises:
        RegistryError: the text is not YAML, or has a duplicate key, an anchor, or an unsafe tag.
    """
    try:
        anchors = list(_anchor_problems(text, file))
        if anchors:
            raise RegistryError(anchors)
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_single_node()
            if root is None:
                return YamlText(None)
            lines: dict[Path, int] = {}
            problems: list[Problem] = []
            data = _construct(loader, root, (), file, lines, problems)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise RegistryError(
            [Problem(file, line, None, f"not valid YAML: {error.problem}")]
        ) from error
    except yaml.YAMLError as error:  # an invalid character: the error has a position but no mark
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        raise RegistryError([Problem(file, line, None, f"not valid YAML: {error}")]) from error
    if problems:
        raise RegistryError(problems)
    return YamlText(data, lines)


def _anchor_problems(text: str, file: str) -> Iterator[Problem]:
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        if isinstance(token, yaml.AnchorToken | yaml.AliasToken):
            yield Problem(
                file,
                token.start_mark.line + 1,
                None,
                "anchors and aliases are not supported; write the value out",
            )


def _construct(
    loader: yaml.SafeLoader,
    node: yaml.Node,
    path: Path,
    file: str,
    lines: dict[Path, int],
    problems: list[Problem],
) -> Any:
    lines.setdefault(path, node.start_mark.line + 1)
    if not isinstance(node, yaml.ScalarNode) and node.tag not in _PLAIN_TAGS:
        message = f"tag {node.tag!r} is not supported; write plain keys and values"
        problems.append(Problem(file, node.start_mark.line + 1, None, message))
        return None
    if isinstance(node, yaml.MappingNode):
        mapping: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                written = getattr(key_node, "value", key)
                problems.append(
                    Problem(
                        file,
                        line,
                        None,
                        f"key {key!r} is not a string; write it in quotes: {written!r}",
                    )
                )
                continue
            if key in mapping:
                first = lines[(*path, key)]
                problems.append(
                    Problem(file, line, None, f"key {key!r} appears twice, first on line {first}")
                )
                continue
            lines[(*path, key)] = line
            mapping[key] = _construct(loader, value_node, (*path, key), file, lines, problems)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [
            _construct(loader, item, (*path, index), file, lines, problems)
            for index, item in enumerate(node.value)
        ]
    return loader.construct_object(node, deep=True)
