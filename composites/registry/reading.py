"""Read the entries of a registry file: expand short forms and defaults, and check the structure of
each entry. This module imports neither torch nor kernels."""

import pathlib
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from pydantic import BaseModel, ValidationError

from composites import attribute_types
from composites.errors import Problem, RegistryError, did_you_mean
from composites.registry.document import (
    FORWARD,
    KERNELS_FILE,
    NO_ATTRIBUTE_TYPE,
    AlternativeDocument,
    AttributeDocument,
    CompositeDocument,
    KernelDocument,
    Kernels,
    RegistryDocument,
    long_entry,
)
from composites.registry.model import KERNEL_PLATFORMS, Location, split_version
from composites.registry.old_keys import old_keys, read_new_keys
from composites.registry.pairs import with_attributes_of_forwards, with_default_backwards
from composites.registry.yaml_text import Path, YamlText, read_yaml, registry_text

HINTS = 20
"""The number of problems of a file that get a hint such as `did you mean`. Thousands of hints would
take minutes."""


@dataclass(frozen=True, slots=True)
class CheckedDocument:
    """The well-formed entries of a file, and the problems of the rest."""

    namespace: str
    names: tuple[str, ...]
    """Names of all entries, including those with problems."""
    entries: dict[str, CompositeDocument]
    extends: dict[str, list[str]]
    """Names of files, and the entries that this file includes from each."""
    samples: str | None
    """The module with samples of entries."""
    kernels: dict[str, Kernels]
    """The kernels under the file's key `kernels`, by name of an entry or composite."""
    kernels_file: str | None
    """`package:file`, if the file's key `kernels` names another file with kernels."""
    text: YamlText
    """The text of the file, with lines for the keys that short forms stand for."""
    problems: list[Problem]
    outdated: list[Problem]
    """Old keys, which `composites format` replaces."""
    kernels_document: "CheckedDocument | None" = None
    """The document of the file that `kernels_file` names."""

    @property
    def rows(self) -> "CheckedDocument":
        """The document with the kernels of the file's key `kernels`."""
        return self if self.kernels_document is None else self.kernels_document

    def default_samples(self, entry: str) -> str | None:
        """Return the samples of an entry that names none: the function with the entry's name in the
        module for samples. The function need not exist."""
        return None if self.samples is None else f"{self.samples}:{split_version(entry)[0]}"


def read_document(written: str, file: str) -> CheckedDocument:
    """Check the structure of a file, and of another file that its key `kernels` names.

    Raises:
        RegistryError: the text cannot be read as YAML; see `read_yaml`.
    """
    document = _read_alone(written, file)
    if document.kernels_file is None:
        return document
    try:
        kernels = _kernels_document(document, document.kernels_file)
    except RegistryError as error:
        return replace(document, problems=[*document.problems, *error.problems])
    outdated = [*document.outdated, *kernels.outdated]
    return replace(document, kernels_document=kernels, outdated=outdated)


def _kernels_document(document: CheckedDocument, kernels_file: str) -> CheckedDocument:
    """Read the file that the key `kernels` of a document names.

    Raises:
        RegistryError: the file cannot be read, has problems, or has another namespace.
    """
    text = document.text
    path = _path_of(kernels_file)
    if path is None:
        message = f"kernels: there is no file {kernels_file}"
        raise RegistryError([text.problem(message, "kernels")])
    other = _read_alone(registry_text(path), str(path))
    problems = list(other.problems)
    if not problems and other.namespace != document.namespace:
        message = f"namespace: must be {document.namespace}, that of {text.file}"
        problems.append(other.text.problem(message, "namespace"))
    if other.names or other.kernels_file is not None:
        message = f"must hold only kernels, because {text.file} names it"
        problems.append(Location(str(path), 1).problem(message))
    if problems:
        raise RegistryError(problems)
    return other


def _path_of(kernels_file: str) -> pathlib.Path | None:
    """Return the path of `package:file` without importing the package; None if it is missing."""
    package, _, name = kernels_file.partition(":")
    try:
        spec = find_spec(package)
    except ImportError:  # a parent package cannot be imported
        spec = None
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    return pathlib.Path(folders[0]) / name if folders else None


@lru_cache(maxsize=16)  # reading the built-in file takes a quarter of a second
def _read_alone(written: str, file: str) -> CheckedDocument:
    """Check the structure of one file. Each entry is checked on its own, so that a problem in one
    entry does not hide the problems of another."""
    text = read_yaml(written, file)
    outdated = old_keys(text)
    if outdated:
        text = read_new_keys(text)
    data = text.data
    kernels_file = data.get("kernels") if isinstance(data, dict) else None
    if isinstance(kernels_file, str) and KERNELS_FILE.fullmatch(kernels_file):
        data = {key: value for key, value in data.items() if key != "kernels"}
    else:
        kernels_file = None
    composites = data.get("composites") if isinstance(data, dict) else None
    if isinstance(composites, dict):
        data = {**data, "composites": {name: {"op": "aten::relu"} for name in composites}}
    else:
        composites = {}
    problems: list[Problem] = []
    try:
        checked = RegistryDocument.model_validate(data)
    except ValidationError as error:
        checked = None
        problems += _problems(error, (), text, len(problems))
    entries: dict[str, CompositeDocument] = {}
    like_forward: list[str] = []
    for name, entry in composites.items():
        attributes = entry.get("attributes") if isinstance(entry, dict) else None
        if attributes == FORWARD:
            like_forward.append(name)
        elif isinstance(attributes, list):
            _add_lines(attributes, ("composites", name, "attributes"), text)
        try:
            entries[name] = CompositeDocument.model_validate(long_entry(entry))
        except ValidationError as error:
            problems += _problems(error, ("composites", name), text, len(problems))
    if checked is not None and checked.schema_ > 1:
        entries = with_default_backwards(entries)
    if not problems:  # a forward with a problem is not among the entries
        entries, mistakes = with_attributes_of_forwards(entries, like_forward)
        for name, message in mistakes.items():
            problems.append(text.problem(message, "composites", name, "attributes"))
    return CheckedDocument(
        namespace=checked.namespace if checked else "",
        names=tuple(composites),
        entries=entries,
        extends=checked.extends if checked else {},
        samples=checked.samples if checked else None,
        kernels=checked.kernels if checked else {},
        kernels_file=kernels_file,
        text=text,
        problems=problems,
        outdated=outdated,
    )


def _add_lines(items: list[Any], path: Path, text: YamlText) -> None:
    """Record lines of the attributes in a list by name, as for the attributes in a mapping."""
    for number, item in enumerate(items):
        if isinstance(item, str):
            text.lines.setdefault((*path, item), text.line((*path, number)))
        for name, value in item.items() if isinstance(item, dict) else ():
            keys = value if isinstance(value, dict) else ()
            for inner in ((name,), *((name, key) for key in keys)):
                text.lines.setdefault((*path, *inner), text.line((*path, number, *inner)))


def _problems(error: ValidationError, root: Path, text: YamlText, before: int) -> list[Problem]:
    """Convert an error to problems. Only the first HINTS problems of a file have hints."""
    problems: list[Problem] = []
    for number, detail in enumerate(error.errors(), before):
        # pydantic adds parts to the location that are not keys of the file: "[key]" for an invalid
        # key, and the type that it tried for a union.
        path = root
        for part in detail["loc"]:
            if (*path, part) in text.lines or detail["type"] == "missing":
                path = (*path, part)
        message = _message(dict(detail), path, hints=number < HINTS)
        problems.append(text.problem(message, *path))
    return problems


def _model(path: Path) -> type[BaseModel]:
    """Return the model of the mapping that contains a key."""
    match path:
        case ("composites", _, _):
            return CompositeDocument
        case ("composites", _, "attributes", _, _):
            return AttributeDocument
        case ("composites", _, "kernels", _, _) | ("kernels", _, _, _):
            return AlternativeDocument
        case ("composites", _, "kernels", _, _, _) | ("kernels", _, _, _, _):
            return KernelDocument
    return RegistryDocument


def _message(detail: dict[str, Any], path: Path, *, hints: bool) -> str:
    kind, key = detail["type"], path[-1] if path else ""
    if kind == "extra_forbidden":
        model = _model(path)
        if model is AlternativeDocument and (
            path[-2] in KERNEL_PLATFORMS or key in ("function", "target")
        ):
            platform = {"gpu": "cuda"}.get(str(path[-2]).lower(), path[-2])
            form = f"{platform}: [{{{key}: ...}}]"
            return (
                f"the kernels of a platform are a list; write {form} (a decomposition to choose has"
                " the key `decomposition`)"
            )
        if model is KernelDocument and key == "decomposition":
            return "a decomposition to choose is a mapping, not a list"
        keys = [info.alias or name for name, info in model.model_fields.items()]
        hint = did_you_mean(str(key), keys) if hints else ""
        return f"unknown key {key!r}{hint} (the keys are {', '.join(keys)})"
    if kind == "missing":
        return f"key {key!r} is missing"
    if kind in ("model_type", "dict_type"):
        is_entry = len(path) == 2 and path[0] == "composites"
        form = f"{'an operator or ' if is_entry else ''}a mapping of keys to values"
        return f"{_where(path)} must be {form}, not {_written(detail)}"
    message = str(detail["msg"]).removeprefix("Value error, ")
    if message == NO_ATTRIBUTE_TYPE:
        hint = did_you_mean(str(detail["input"]), attribute_types.NAMES) if hints else ""
        names = ", ".join(attribute_types.NAMES)
        arrays = "and arrays of these such as array<i32>"
        return f"{_written(detail)} {message}{hint} (known: {names}, {arrays})"
    if kind == "literal_error":
        key = next((part for part in reversed(path) if isinstance(part, str)), "")
        return f"{key}: must be {detail['ctx']['expected']}, not {_written(detail)}"
    if kind == "value_error":
        return f"{_inside_entry(path)}{message}"
    return f"{_where(path)}: {message[0].lower()}{message[1:]}, not {_written(detail)}"


def _inside_entry(path: Path) -> str:
    if path and path[0] == "kernels":
        return f"{' '.join(map(str, path[:3]))}: " if len(path) > 2 else ""
    return f"{path[2]} {path[3]}: " if len(path) > 3 else ""


def _where(path: Path) -> str:
    return ".".join(str(part) for part in path) or "the file"


def _written(detail: dict[str, Any]) -> str:
    shown = repr(detail["input"])
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
