"""Short forms of registry files, spelled out as the keys that `document` checks.

`silu: aten::silu` is an entry with `op` alone. `attributes: [eps, dim: {normalize: dim}]` lists
names of arguments, and mappings for those that need more than a name.
"""

from dataclasses import dataclass, field
from typing import Any

from composites.errors import Problem
from composites.registry.yaml_text import Path, YamlText

FORWARD = "forward"
"""`attributes: forward` of a backward means those of its forward."""


@dataclass(frozen=True, slots=True)
class LongForms:
    """Spells out entries. Mistakes other than in short forms are left to `document`."""

    text: YamlText
    """The text of the file. Lines of keys that are spelled out are added to it."""
    like_forward: list[str] = field(default_factory=list)
    """Entries that have the attributes of their forward."""
    problems: list[Problem] = field(default_factory=list)

    def entry(self, name: str, entry: Any) -> Any:
        """An entry as a mapping of keys to values."""
        if isinstance(entry, str):
            return {"op": entry}
        if not isinstance(entry, dict) or "attributes" not in entry:
            return entry
        place: Path = ("composites", name, "attributes")
        attributes = entry["attributes"]
        if attributes == FORWARD:
            self.like_forward.append(name)
            attributes = {}
        elif isinstance(attributes, list):
            attributes = self._listed(attributes, place)
        elif not isinstance(attributes, dict):
            message = (
                f"attributes: must be a list such as [dim, keepdim], a mapping, or {FORWARD}, not"
                f" {attributes!r}"
            )
            self._problem(place, message)
            attributes = {}
        named = {key: _with_argument(key, value) for key, value in attributes.items()}
        return {**entry, "attributes": named}

    def _listed(self, items: list[Any], place: Path) -> dict[str, Any]:
        """The attributes of a list as a mapping."""
        lines = self.text.lines
        attributes: dict[str, Any] = {}
        for number, item in enumerate(items):
            if not isinstance(item, str | dict):
                message = (
                    f"attributes: {item!r} is not an attribute; write the name of an argument such"
                    " as dim, or a name with more, such as dim: {from: dim, normalize: dim}"
                )
                self._problem((*place, number), message)
                continue
            is_name = isinstance(item, str)
            pairs: dict[str, Any] = {item: item} if isinstance(item, str) else item
            for name, value in pairs.items():
                line_of: Path = (*place, number) if is_name else (*place, number, name)
                if name in attributes:
                    first = lines[*place, name]
                    message = f"attributes: {name!r} appears twice, first on line {first}"
                    self._problem(line_of, message)
                    continue
                attributes[name] = value
                lines[*place, name] = self.text.line(line_of)
                for key in value if isinstance(value, dict) else ():
                    lines[*place, name, key] = self.text.line((*line_of, key))
        return attributes

    def _problem(self, path: Path, message: str) -> None:
        self.problems.append(self.text.problem(message, *path))


def _with_argument(name: str, value: Any) -> Any:
    """An attribute without `from` and `value` is the argument of its name."""
    if isinstance(value, dict) and not {"from", "value"} & set(value):
        return {"from": name, **value}
    return value
