"""Load a registry file: check its structure, each entry against its operator, and the entries
against each other.

All problems of a file are collected before an error is raised. No part of a file with a problem is
used.
"""

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from composites.attribute_types import (
    SEGMENT_SIZES,
    UnsupportedValueError,
    attribute_type,
    types_of_argument,
    types_of_constant,
)
from composites.contracts.model import AttributeSpec
from composites.element_types import PYTORCH_NAMES
from composites.errors import Problem, RegistryError, UnusableFunctionError, did_you_mean
from composites.frozen import frozen
from composites.functions import find_function
from composites.registry.alternatives import mistakes_in
from composites.registry.document import INTERMEDIATE, MAX_VERSION, CompositeDocument
from composites.registry.kernels import (
    file_kernels,
    included_entries,
    kernel_problems,
    unchecked_entry,
)
from composites.registry.mistakes import (
    mistakes_of_when,
    problems_of_intermediates,
    problems_of_saves,
)
from composites.registry.model import (
    DERIVE,
    Composite,
    Decomposition,
    Kernel,
    Registry,
    Tensor,
    split_version,
)
from composites.registry.operators import Operator, UnknownOperatorError, find_operator, names
from composites.registry.pairs import backward_of, version_of, versions_of
from composites.registry.reading import HINTS, CheckedDocument, read_document
from composites.registry.signatures import check_signature, describe_target
from composites.registry.yaml_text import registry_text

TENSOR = re.compile(r"((?:[0-9]{1,4}x)*)([a-z]\w*(?:<\w+>)?)", re.ASCII)
PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)?")


def load_registry(path: str | Path) -> Registry:
    """Read and check a registry file.

    Raises:
        RegistryError: with every problem of the file.
    """
    return parse_registry(registry_text(path), str(path))


def parse_registry(text: str, source: str) -> Registry:
    """Check the text of a registry. `source` is the file name, for error messages and for the
    folder of extended files."""
    return _checked_registry(read_document(text, source))


def _checked_registry(document: CheckedDocument) -> Registry:
    """Check a file, and the files that it extends.

    Raises:
        RegistryError: with all their problems.
    """
    problems = list(document.problems)
    composites: dict[str, Composite] = {}
    for name, entry in document.entries.items():
        composite = _EntryReader(name, entry, document, problems).read()
        if composite is not None:
            composites[name] = composite
    problems.extend(_across_entries(document))
    if not problems:  # forwards with problems have no operands
        problems.extend(_wrong_gradients(composites, document))
    kernels = file_kernels(document)
    for kernel in kernels:
        if kernel.platform is not None:
            problems.extend(kernel_problems(kernel, None))
    inherited, mistakes = included_entries(document, _checked_registry)
    problems.extend(mistakes)
    owners = {own.identity: Path(document.text.file).name for own in composites.values()}
    for twice in inherited:
        other = Path(twice.location.file).name
        owner = owners.setdefault(twice.identity, other)
        if twice.name in document.names:
            message = f"{twice.location.file} has this entry too"
            problems.append(document.text.problem(message, "composites", twice.name))
        elif owner != other:
            message = f"extends: {other}: {owner} has the entry {twice.name!r} too"
            problems.append(document.text.problem(message, "extends", other))
    if problems:
        raise RegistryError(problems)
    line_of_samples = document.text.location("samples")
    return Registry(
        document.text.file,
        document.namespace,
        (*inherited, *composites.values()),
        kernels=kernels,
        kernels_file=None if document.kernels_file is None else document.rows.text.file,
        samples=None if document.samples is None else (document.samples, line_of_samples),
        outdated=tuple(document.outdated),
    )


def _across_entries(document: CheckedDocument) -> Iterator[Problem]:
    owner: dict[str, str] = {}
    hints = HINTS
    text, entries, versions = document.text, document.entries, versions_of(document.entries)
    for name, entry in entries.items():
        plain, version = split_version(name)[0], version_of(name, entry)
        first = versions[plain][version]
        if first != name:
            message = f"is version {version} of {plain}, as {first!r} is"
            yield text.problem(message, "composites", name)
    for name, entry in entries.items():
        if entry.fuses is not None and (entry.fuses == name or entry.fuses not in versions):
            hint = did_you_mean(entry.fuses, [other for other in versions if other != name])
            message = f"fuses: there is no other entry {entry.fuses!r}{hint}"
            yield text.problem(message, "composites", name, "fuses")
    for name, entry in entries.items():
        if entry.backward is None or entry.backward == DERIVE:
            continue
        backward = backward_of(name, entry, versions)
        message = ""
        if backward is None and entry.backward not in document.names:
            candidates = [*document.names, *versions, DERIVE]
            hint = did_you_mean(entry.backward, candidates) if hints > 0 else ""
            if entry.backward == "none":
                hint = "; write `backward: null` for an entry without backward"
            hints -= 1
            message = f"there is no entry {entry.backward!r}{hint}"
        elif backward == name:
            message = "an entry cannot be its own backward"
        elif backward in owner and entries[owner[backward]].op != entry.op:
            # Two forms of one operator (gelu and gelu_tanh) may share a backward.
            pair = (owner[backward], name)
            silent = [n for n in pair if ("composites", n, "backward") not in text.lines]
            message = (
                f"{backward!r} is already the backward of {owner[backward]!r}, which has"
                " another operator"
            )
            if silent:
                message += f"; write `backward: null` in {silent[0]!r} if it has no backward"
        elif backward is not None:
            owner.setdefault(backward, name)
        if message:
            yield text.problem(f"backward: {message}", "composites", name, "backward")


def _wrong_gradients(
    composites: Mapping[str, Composite], document: CheckedDocument
) -> Iterator[Problem]:
    """Yield a problem for each name in `gradients` that is not an operand of any forward."""
    registry = Registry("", document.namespace, tuple(composites.values()))
    pairs = [(forward, registry.backward_of(forward)) for forward in registry.composites]
    for key, entry in composites.items():
        forwards = [forward for forward, backward in pairs if backward == entry]
        tensors = list(dict.fromkeys(name for forward in forwards for name in forward.operands))
        for name in entry.gradients if forwards else ():
            if name not in tensors:
                message = (
                    f"gradients: {' and '.join(forward.qualified for forward in forwards)} has no"
                    f" operand {name!r}{did_you_mean(name, tensors)} (it has {', '.join(tensors)})"
                )
                yield document.text.problem(message, "composites", key, "gradients")


@dataclass(frozen=True, slots=True)
class _EntryReader:
    """Checks one entry against its operator, and adds problems to `problems`."""

    name: str
    entry: CompositeDocument
    document: CheckedDocument
    problems: list[Problem]

    def read(self) -> Composite | None:
        count_before = len(self.problems)
        version = split_version(self.name)[1]
        if version is not None and not self._fits_version(version):
            return None
        operator = self._operator()
        callee = self._callee(operator)
        if len(self.problems) > count_before:
            return None
        if operator is not None and callee is operator:
            self._check_operator(operator)
        operands = self._path_operands() if callee is None else self._operands(callee)
        composite = unchecked_entry(self.document, self.name)
        saves = composite.saves
        if saves is None and composite.intermediates:
            saves = (*operands, *composite.intermediates)
        composite = replace(
            composite,
            op=None if operator is None else operator.qualified,
            operands=operands,
            attributes=tuple(self._attributes(composite, callee)),
            rewrites=tuple(self._rewrites()),
            example=tuple(self._example(operator)),
            saves=saves,
        )
        for mistake in mistakes_of_when(composite.when, callee, self._hint):
            self._problem(mistake.message, *mistake.keys)
        self._check_decomposition(composite.decomposition, operator, callee)
        self._check_results(composite.results, operator, callee)
        self._check_saved(composite)
        for caught, target in composite.jax:  # `caught` is looked up when it is patched
            self._check_function(target, "jax", "jax", caught)
        self._check_twice("gradients", composite.gradients, "an operand")
        if len(self.problems) == count_before:
            self._check_kernels(composite)
        return composite if len(self.problems) == count_before else None

    def _fits_version(self, version: int) -> bool:
        """Return True if the number in the entry's name is a valid version and agrees with the key
        `version`."""
        if version > MAX_VERSION:
            self._problem(f"{version} is too large for a version")
            return False
        written = self.entry.version
        if "version" in self.entry.model_fields_set and written != version:
            self._wrong("version", f"is {written}, and the name says {version}; leave one out")
            return False
        return True

    def _operator(self) -> Operator | None:
        if self.entry.op is None:
            return None
        try:
            return find_operator(self.entry.op)
        except UnknownOperatorError as error:
            self._problem(f"{error}{self._hint(error)}", "op")
            return None

    def _hint(self, unknown: str | UnknownOperatorError, candidates: Sequence[str] = ()) -> str:
        if len(self.problems) >= HINTS:
            return ""
        return did_you_mean(unknown, candidates) if isinstance(unknown, str) else unknown.hint()

    def _callee(self, operator: Operator | None) -> Operator | None:
        """Return the signature whose arguments are the composite's operands and attributes.

        It is the signature of the operator. If `adapt` adapts the arguments, or the entry is a
        backward without an operator, it is the signature of the decomposition. None for a Python
        function, which is checked when its module is imported.
        """
        adapt = self.entry.adapt
        if adapt is None and not self.entry.gradients:
            return operator
        key = "adapt" if adapt else "gradients"
        target = Decomposition.parse(self.entry.decomposition).target
        if target is None:
            self._wrong(
                key,
                "needs `decomposition: package.module:function`, a PyTorch function, or a"
                " JAX function with jax:, that takes the composite's operands and attributes",
            )
            return None
        try:
            if adapt is not None:
                find_function(adapt)
            return describe_target(target)
        except UnusableFunctionError as error:
            self._problem(str(error), key)
            return None

    def _path_operands(self) -> tuple[str, ...]:
        listed = self.entry.operands
        if not listed:
            self._problem("function: needs `operands`, the tensors that the composite takes")
            return ()
        for operand in listed:
            if not PATH.fullmatch(operand):
                self._wrong(
                    "operands", f"{operand!r} is neither an argument nor a path such as self.weight"
                )
        # Generated code takes self.weight as self_weight.
        local = [path.replace(".", "_") for path in listed]
        self._check_twice("operands", local, "an argument or path")
        return tuple(listed)

    def _check_results(
        self, results: Sequence[int], operator: Operator | None, callee: Operator | None
    ) -> None:
        if results and (operator is None or callee is not operator):
            self._wrong(
                "results", "only an entry with `op`, and without `adapt`, can select results"
            )
        elif results and operator is not None and operator.returns_list:
            self._wrong(
                "results",
                f"{operator.qualified} returns a list, whose length depends on the call;"
                " leave `results` out",
            )
        elif operator is not None and any(n >= len(operator.results) for n in results):
            count = len(operator.results)
            self._wrong(
                "results",
                f"{operator.qualified} has {count} result{'s' * (count != 1)}, numbered from 0",
            )
        else:
            self._check_twice("results", results, "a number")

    def _check_saved(self, composite: Composite) -> None:
        named = [name for name in self.entry.saves or () if isinstance(name, str)]
        for problem in problems_of_saves(named, composite.operands):
            self._problem(problem, "saves")
        for name, target in composite.saved:
            if target is not None and not INTERMEDIATE.fullmatch(name):
                self._wrong("saves", f"{name!r} is not the name of a value, such as inverse_rms")
            if target is not None:
                self._check_function(target, f"saves: {name}", "saves")
        if not composite.intermediates:
            return
        if not composite.derives:
            self._problem("intermediates: needs `backward: derive`, which takes them")
        if composite.op is not None and composite.decomposition.target is None:
            self._wrong(
                "intermediates",
                "the stock lowering names no values; give a `decomposition` that"
                " calls composites.intermediate",
            )
        for problem in problems_of_intermediates(composite.intermediates, composite):
            self._problem(problem, "intermediates")

    def _rewrites(self) -> Iterator[tuple[str, str]]:
        for caught, target in self.entry.rewrites.items():
            exists = self._check_function(target, "rewrites", "rewrites", caught)
            try:
                if exists and "::" in caught:
                    caught = find_operator(caught).qualified
            except UnknownOperatorError as error:
                self._problem(f"rewrites: {error}{self._hint(error)}", "rewrites", caught)
            yield caught, target

    def _example(self, operator: Operator | None) -> Iterator[tuple[str, Any]]:
        """Yield the arguments of the example call. Arguments of a Python function are checked when
        the function is called."""
        argument_names = names(operator.arguments) if operator is not None else []
        argument_tensors = operator.tensors if operator is not None else ()
        for name, value in self.entry.example.items():
            argument = operator.argument(name) if operator is not None else None
            if operator is not None and argument is None:
                self._problem(
                    f"example: {operator.qualified} has no argument {name!r}"
                    f"{self._hint(name, argument_names)} (it has {', '.join(argument_names)})",
                    "example", name,
                )  # fmt: skip
                continue
            is_list = isinstance(value, list)
            tensors = [_tensor(item) for item in (value if isinstance(value, list) else [value])]
            written = tuple(tensors) if is_list else tensors[0]
            if argument is None:
                yield name, written if tensors and None not in tensors else frozen(value)
            elif argument.kind == "optional_tensors" and is_list:
                yield name, written
            elif argument not in argument_tensors or (argument.optional and value is None):
                yield name, frozen(value)
            elif is_list != argument.is_list or None in tensors:
                form = "the type of a tensor; write one such as 2x3xf32"
                if argument.is_list:
                    form = "a list of types of tensors; write one such as [2x3xf32, 4x3xf32]"
                self._problem(f"example: {name}: {value!r} is not {form}", "example", name)
            else:
                yield name, written

    def _problem(self, message: str, *path: str) -> None:
        problem = self.document.text.problem(message, "composites", self.name, *path)
        self.problems.append(problem)

    def _wrong(self, key: str, message: str) -> None:
        """Add a problem with the value of a key."""
        self._problem(f"{key}: {message}", key)

    def _wrong_attribute(self, name: str, message: str, *keys: str) -> None:
        """Add a problem with an attribute, or with one of its keys."""
        self._problem(f"attribute {name}: {message}", "attributes", name, *keys)

    def _check_twice(self, key: str, values: Sequence[str | int], what: str) -> None:
        """Add a problem if a value of a key appears twice. `what` is its kind, as `an operand`."""
        if len(set(values)) < len(values):
            self._wrong(key, f"{what} appears twice")

    def _check_function(self, target: str, about: str, *path: str) -> bool:
        """Import a function that a key names. A failure adds a problem and returns False."""
        try:
            find_function(target)
        except UnusableFunctionError as error:
            self._problem(f"{about}: {error}", *path)
            return False
        return True

    def _check_operator(self, operator: Operator) -> None:
        if operator.mutates:
            self._problem(
                f"{operator.qualified} writes to an argument or returns a view of one; name the"
                " operator that returns a new tensor (calls in place reach it too)",
                "op",
            )
        awkward = [a for a in names(operator.arguments) if keyword.iskeyword(a) or a[0] == "_"]
        if awkward:
            self._problem(
                f"{operator.qualified} has an argument called {awkward[0]!r}, which cannot be the"
                " name of a Python parameter; no entry can catch this operator",
                "op",
            )
        absent = [a.name for a in operator.arguments if a.kind == "optional_tensors"]
        if absent:
            self._problem(
                f"{operator.qualified} takes a list of tensors of which some can be absent"
                f" ({absent[0]}), and consumers could not tell which; with `adapt`, pass the"
                " present tensors to a function of your own, and their positions as an attribute",
                "op",
            )
        elif not operator.tensors:
            self._problem(f"{operator.qualified} has no tensor argument for an operand", "op")
        all_tensors = bool(operator.results) and set(operator.results) == {"Tensor"}
        if not (all_tensors or operator.returns_list):
            written = ", ".join(operator.results) or "nothing"
            self._problem(
                f"{operator.qualified} returns {written}; a composite can only return tensors, or"
                " one list of tensors",
                "op",
            )

    def _operands(self, operator: Operator) -> tuple[str, ...]:
        tensors = names(operator.tensors)
        listed = tensors if self.entry.operands is None else self.entry.operands
        if not listed and (tensors or self.entry.op != operator.qualified):
            text = (
                ", ".join(tensors) or "none: give tensors the type hint torch.Tensor or jax.Array"
            )
            self._wrong(
                "operands",
                f"a composite needs at least one; the tensors of {operator.qualified} are {text}",
            )
        for operand in dict.fromkeys(listed):
            if operand not in tensors:
                self._wrong(
                    "operands",
                    f"{operator.qualified} has no tensor argument {operand!r}"
                    f"{self._hint(operand, tensors)} (it has {', '.join(tensors)})",
                )
        self._check_twice("operands", listed, "an argument")
        missing = [a.name for a in operator.tensors if not a.optional and a.name not in listed]
        if missing:
            self._wrong(
                "operands",
                f"{', '.join(missing)} must be listed too: only an optional tensor can be left out",
            )
        return tuple(listed)

    def _attributes(self, composite: Composite, callee: Operator | None) -> Iterator[AttributeSpec]:
        for attribute in composite.attributes:
            name, source, type_ = attribute.name, attribute.argument, attribute.type
            if name == SEGMENT_SIZES:
                self._wrong_attribute(
                    name,
                    "the name is reserved for the attribute with the number of tensors of each"
                    " list; choose another",
                )
            if source is None:
                type_ = self._type_of_constant(attribute)
            elif callee is not None:
                type_ = self._type_of_argument(attribute, source, callee)
            elif not PATH.fullmatch(source):
                self._wrong_attribute(
                    name, f"{source!r} is neither an argument nor a path such as self.eps"
                )
            yield replace(attribute, type=type_)

    def _type_of_constant(self, attribute: AttributeSpec) -> str | None:
        name = attribute.name
        value = self.entry.attributes[name].value  # a list, where the attribute has a tuple
        named = None if attribute.type is None else attribute_type(attribute.type)
        types = types_of_constant(value)
        if not types and named is None:
            self._wrong_attribute(
                name,
                f"{value!r} has no attribute type; a list must hold only"
                " numbers or only booleans, or have a `type` such as array<string>",
            )
            return None
        fits = named is not None and named.takes_constant(value)
        type_ = self._type(attribute, types, f"constant {value!r}", fits=fits)
        writer = None if type_ is None else attribute_type(type_)
        try:
            if writer is not None:
                writer.write(value)
        except UnsupportedValueError as error:
            self._wrong_attribute(name, str(error))
        return type_

    def _type_of_argument(
        self, attribute: AttributeSpec, source: str, operator: Operator
    ) -> str | None:
        name, argument = attribute.name, operator.argument(source)
        if argument is None:
            candidates = [a.name for a in operator.arguments if types_of_argument(a.kind)]
            has = (
                f"it has {', '.join(candidates)}"
                if candidates
                else "none of its arguments can be an attribute"
            )
            self._wrong_attribute(
                name,
                f"{operator.qualified} has no argument {source!r}"
                f"{self._hint(source, candidates)} ({has})",
            )
            return None
        kind = argument.kind
        if kind == "other" and attribute.type is None and not operator.results:
            return None
        types = types_of_argument(kind)
        named = None if attribute.type is None else attribute_type(attribute.type)
        fits = named is not None and named.takes_argument(kind)
        if not types and not fits:
            what = f"of kind {kind}"
            if argument.is_tensor or argument.is_list:
                form = "list of tensors" if argument.is_list else "tensor"
                what = f"a {form}; list it in `operands`"
            self._wrong_attribute(
                name, f"argument {source} cannot be an attribute because it is {what}"
            )
            return None
        if argument.optional and not attribute.optional:
            self._wrong_attribute(
                name,
                f"argument {source} can be None; write `optional: true` to leave"
                " the attribute out in that case",
            )
        if attribute.normalize and kind not in ("int", "ints"):
            self._wrong_attribute(
                name,
                f"`normalize: dim` needs a dimension, but {source} is of kind {kind}",
                "normalize",
            )
        if attribute.normalize and operator.adds_a_dimension:
            self._wrong_attribute(
                name,
                f"{source} of {operator.qualified} counts the dimensions of its"
                " result, which has one more than its operands; leave `normalize` out",
                "normalize",
            )
        return self._type(attribute, types, f"argument {source} ({kind})", fits=fits)

    def _type(
        self, attribute: AttributeSpec, types: Sequence[str], described: str, *, fits: bool
    ) -> str | None:
        if attribute.type is None:
            return types[0]
        if not fits:
            choices = f"; it can be {', '.join(types)}" if types else ""
            message = f"{described} cannot be of type {attribute.type}{choices}"
            self._wrong_attribute(attribute.name, message, "type")
            return None
        return attribute.type

    def _check_kernels(self, entry: Composite) -> None:
        attributes = [attribute.name for attribute in entry.attributes]
        text = self.document.text
        before: list[Kernel] = []
        for kernel in entry.kernels:
            if kernel.platform is not None:
                self.problems.extend(kernel_problems(kernel, self.name, attributes))
                continue
            location = kernel.location
            inside = ("composites", self.name, "kernels", kernel.name)
            for mistake in mistakes_in(kernel, entry, before):
                line = location.line
                if location.file == text.file and inside in text.lines:
                    line = text.line((*inside, *mistake.keys))
                message = f"kernels: {kernel.name}: {mistake.message}"
                self.problems.append(Problem(location.file, line, self.name, message))
            before.append(kernel)

    def _check_decomposition(
        self, decomposition: Decomposition, operator: Operator | None, callee: Operator | None
    ) -> None:
        if decomposition.target is None:
            return
        try:
            function = find_function(decomposition.target)
            if callee is operator and operator is not None:
                check_signature(function, decomposition.target, operator)
        except UnusableFunctionError as error:
            self._wrong("decomposition", str(error))


def _tensor(value: Any) -> Tensor | None:
    """Parse the type of a tensor, such as `2x3xf32`; None if it is not a type of a tensor."""
    written = TENSOR.fullmatch(value) if isinstance(value, str) else None
    if written is None or written[2] not in PYTORCH_NAMES:
        return None
    return Tensor(written[2], tuple(int(size) for size in written[1].split("x") if size))
