"""Convert YAML text to plain data, with the line of every key. Only this module reads YAML.

Only the safe constructors of YAML 1.1 run, so no tag can create an object. A duplicate key is an
error; PyYAML alone would keep the last value. Anchors, aliases and merge keys are rejected: a
registry does not need them, and a few nested ones expand to gigabytes. Size and depth have limits,
because PyYAML takes up to a second for 100 kB, and a Python frame for each level.
"""

import pathlib
from dataclasses import dataclass, field
from typing import Any

import yaml

from composites.errors import Problem, RegistryError
from composites.registry.model import Location
from composites.registry.packages import builtin_registry_path

_LIBYAML: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser of libyaml, where PyYAML was built with it. It takes a quarter of the time, which each
process spends on the built-in registry. Files of users are read by PyYAML's own parser everywhere,
since libyaml accepts more, such as `[a?b]`."""

MAX_CHARACTERS = 256 * 1024
"""The size limit of a file. It is ten times the size of the built-in registry."""

MAX_DEPTH = 20
"""The limit of nested mappings and lists. A registry needs 7."""

_STANDARD = "tag:yaml.org,2002:"
_NUMBERS = (f"{_STANDARD}int", f"{_STANDARD}float")
_LARGEST = 2**1024  # beyond the largest f64; `repr` and `float` of larger numbers fail

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class YamlText:
    """The plain data of a file, and the 1-based line of each key and list item."""

    file: str
    data: Any
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """Return the line of `path`, or of its closest parent that has a line."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def location(self, *path: str | int) -> Location:
        """Return the location of `path`."""
        return Location(self.file, self.line(path))

    def problem(self, message: str, *path: str | int) -> Problem:
        """Return a problem at `path`, with the entry that contains the path."""
        in_entry = len(path) > 1 and path[0] == "composites"
        return Problem(self.file, self.line(path), str(path[1]) if in_entry else None, message)


def registry_text(path: str | pathlib.Path, newline: str | None = None) -> str:
    """Return the text of a registry file. `newline` is the argument of `open`.

    Raises:
        RegistryError: the file cannot be read.
    """
    try:
        with pathlib.Path(path).open(encoding="utf-8", newline=newline) as file:
            return file.read(MAX_CHARACTERS + 1)  # one character more than `read_yaml` accepts
    except UnicodeDecodeError:
        message = "is not UTF-8 text"
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
    except ValueError as error:  # a path with a null character
        message = f"cannot be read: {error}"
    raise RegistryError([Problem(str(path), 1, None, message)])


def read_yaml(text: str, file: str) -> YamlText:
    """Parse `text`.

    Raises:
        RegistryError: the text is too large or nested too deeply, is not YAML, or has a duplicate
            key, an anchor, an unsafe tag, or a value that is not of its type.
    """

    def refused(message: str, line: int = 1) -> RegistryError:
        return RegistryError([Problem(file, line, None, message)])

    if len(text) > MAX_CHARACTERS:
        raise refused(
            f"the file has more than {MAX_CHARACTERS // 1024} kB, the limit for a registry file;"
            " split it into several files"
        )
    try:
        builtin = file == str(builtin_registry_path())
        loader = _LIBYAML(text) if builtin else yaml.SafeLoader(text)
    except yaml.YAMLError as error:  # an invalid character: the error has a position but no mark
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        raise refused(f"not valid YAML: {error}", line) from error
    reader = _EventReader(loader, file)
    try:
        data = reader.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        hint = "; indent with spaces" if "'\\t'" in str(error.problem) else ""
        line = mark.line + 1 if mark else 1
        raise refused(f"not valid YAML: {error.problem}{hint}", line) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # PyYAML's scanner passes on errors of `chr` and `int`, as for "\U00110000".
        raise refused(f"not valid YAML: {error}", getattr(loader, "line", 0) + 1) from error
    finally:
        loader.dispose()
    if reader.problems:
        raise RegistryError(reader.problems)
    return YamlText(file, data, reader.lines)


@dataclass(slots=True)
class _EventReader:
    """Builds plain data from the events of PyYAML's parser, and collects problems."""

    loader: Any  # types-PyYAML has no types for its methods
    file: str
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def document(self) -> Any:
        """Read the data of the only document; None for an empty file."""
        self.loader.get_event()  # the start of the stream
        if self.loader.check_event(yaml.StreamEndEvent):
            return None
        self.loader.get_event()  # the start of the document
        data = self._node(self.loader.get_event(), ())
        self.loader.get_event()  # the end of the document
        if not self.loader.check_event(yaml.StreamEndEvent):
            self._problem(self.loader.peek_event(), "a second YAML document starts here; remove it")
        return data

    def _node(self, event: Any, path: Path) -> Any:
        self.lines.setdefault(path, event.start_mark.line + 1)
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            self._problem(event, "anchors and aliases are not supported; write the value out")
            if isinstance(event, yaml.AliasEvent):
                return None
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if len(path) >= MAX_DEPTH:
            # Reading on would need a Python frame for each further level.
            message = f"nested more than {MAX_DEPTH} levels deep; no key of a registry needs this"
            raise RegistryError([Problem(self.file, event.start_mark.line + 1, None, message)])
        mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", f"{_STANDARD}{'map' if mapping else 'seq'}"):
            self._problem(event, f"tag {event.tag!r} is not supported; write plain keys and values")
        return self._mapping(path) if mapping else self._sequence(path)

    def _sequence(self, path: Path) -> list[Any]:
        items: list[Any] = []
        while not self.loader.check_event(yaml.SequenceEndEvent):
            items.append(self._node(self.loader.get_event(), (*path, len(items))))
        self.loader.get_event()
        return items

    def _mapping(self, path: Path) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not self.loader.check_event(yaml.MappingEndEvent):
            event = self.loader.get_event()
            count_before = len(self.problems)
            key = self._key(event, path)
            if isinstance(key, str) and key not in mapping:
                self.lines[(*path, key)] = event.start_mark.line + 1
                mapping[key] = self._node(self.loader.get_event(), (*path, key))
                continue
            if isinstance(key, str):
                first = self.lines[(*path, key)]
                self._problem(event, f"key {key!r} appears twice, first on line {first}")
            elif len(self.problems) == count_before:
                written = event.value
                self._problem(
                    event, f"key {key!r} is not a string; write it in quotes: {written!r}"
                )
            self._node(self.loader.get_event(), (*path, ""))  # read past the value
        self.loader.get_event()
        return mapping

    def _key(self, event: Any, path: Path) -> Any:
        if not isinstance(event, yaml.ScalarEvent):
            self._problem(event, "a key must be text, not a mapping, a list or an alias")
        return self._node(event, (*path, ""))

    def _scalar(self, event: Any) -> Any:
        """Return the value of a scalar. None, with a problem, if the scalar has no valid value."""
        tag, text = event.tag, event.value
        if tag in (None, "!"):
            tag = self.loader.resolve(yaml.ScalarNode, text, event.implicit)
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        if tag == f"{_STANDARD}timestamp":
            return self._problem(event, f"YAML reads {shown} as a date; write it in quotes")
        if tag in _NUMBERS and ":" in text:
            return self._problem(
                event,
                f"YAML reads {shown} as a number in base 60; write it in quotes, or write a decimal"
                " number",
            )
        node = yaml.ScalarNode(tag, text, event.start_mark, event.end_mark, event.style)
        try:
            value = self.loader.construct_object(node, deep=True)
        except yaml.constructor.ConstructorError as error:
            return self._problem(event, f"not valid YAML: {error.problem}")
        except (ValueError, KeyError, IndexError, OverflowError):
            if len(text) <= 40:
                name = tag.removeprefix(_STANDARD)
                return self._problem(event, f"{text!r} is not a value of type {name}")
            value = _LARGEST  # Python converts at most 4,300 digits
        if isinstance(value, bytes):
            return self._problem(event, f"tag {tag!r} is not supported; write plain text")
        if isinstance(value, int) and abs(value) >= _LARGEST:
            return self._problem(
                event, f"the number {shown} is too large; no attribute type can hold it"
            )
        surrogates = [c for c in text if "\ud800" <= c <= "\udfff"]
        if surrogates:
            half = f"{surrogates[0]!r} is half of a character (a surrogate)"
            return self._problem(event, f"{half}; write the character itself")
        return value

    def _problem(self, event: Any, message: str) -> None:
        self.problems.append(Problem(self.file, event.start_mark.line + 1, None, message))
