"""Registry to Python source: one readable, typed hook for each entry.

Text of a YAML file reaches the source only as names that a pattern and PyTorch's schema have
checked, or as `repr` of a constant; decomposition targets do not appear at all.
"""

from __future__ import annotations

import keyword
import linecache
import math
import re
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from composites.registry.model import ELEMENT_TYPES, Attribute, Composite, Registry
from composites.registry.operators import ANNOTATIONS, Argument, Operator, find_operator
from lowering.emission import attributes


@dataclass(frozen=True, slots=True)
class Hook:
    """The pieces of one hook's source, as the template puts them together."""

    function: str
    composite: str
    key_text: str
    op: str
    version: int
    schema: str
    parameters: list[str]
    arguments: list[str]
    operands: list[str]
    operand_tuple: str
    key: str
    matches: str
    attributes: list[tuple[str, str]]
    returns: str
    result: str
    dissolves: bool
    requires_grad: str


def generate(registry: Registry, source: str) -> str:
    """The source of a registry's hooks; `source` is the file's name for the header."""
    import jinja2  # not needed by hooks that are generated already

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lowering"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    functions = _function_names(registry)
    return environment.get_template("hooks.py.jinja").render(
        source=_one_line(source),
        namespace=registry.namespace,
        hooks=[_hook(entry, functions[entry.name]) for entry in registry.composites],
    )


def load(registry: Registry) -> ModuleType:
    """Generate a registry's hooks in memory; tracebacks show their lines."""
    text = generate(registry, registry.source)
    name = f"lowering.generated.<{registry.namespace} from {registry.source}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    module = ModuleType(name)
    module.__file__ = name
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def operator_name(entry: Composite) -> str:
    """Name of the operator of ours for an entry that dissolves above the backend."""
    return re.sub(r"\W", "_", f"{entry.namespace}__{entry.name}".replace("$", "_"), flags=re.ASCII)


def _function_names(registry: Registry) -> dict[str, str]:
    """A Python name for each entry: entry names may hold dots and `$`, and be keywords."""
    taken = {"torch", "Tensor", "Number", "Any", "Kernel", "EntryLowering", "HOOKS", "STOCK"}
    functions: dict[str, str] = {}
    for entry in registry.composites:
        name = re.sub(r"\W", "_", entry.name.replace("$", "_"), flags=re.ASCII)
        name = f"_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name
        while name in taken or f"{name}_above_decompositions" in taken:
            name += "_"
        taken.add(name)
        functions[entry.name] = name
    return functions


def _hook(entry: Composite, function: str) -> Hook:
    operator = find_operator(entry.op)
    returns = len(operator.results)
    operands = list(entry.operands)
    optional = {argument.name for argument in operator.tensors if argument.optional}
    return Hook(
        function=function,
        composite=entry.qualified,
        key_text=repr(entry.name),
        op=operator.qualified,
        version=entry.version,
        schema=operator.schema,
        parameters=_parameters(operator),
        arguments=[f"{a.name}={a.name}" if a.keyword_only else a.name for a in operator.arguments],
        operands=operands,
        operand_tuple=_tuple(operands),
        key=_tuple([part for argument in operator.arguments for part in _key(argument)]),
        matches=_matches(entry, operator),
        attributes=[(repr(a.name), _attribute(a, entry)) for a in entry.attributes],
        returns="Tensor" if returns == 1 else f"tuple[{', '.join(['Tensor'] * returns)}]",
        result=_result(entry, operands, optional, returns),
        dissolves=operator.dissolves,
        requires_grad=" or ".join(
            f"({a.name} is not None and {a.name}.requires_grad)"
            if a.optional
            else f"{a.name}.requires_grad"
            for a in operator.tensors
        ),
    )


def _parameters(operator: Operator) -> list[str]:
    written: list[str] = []
    for argument in operator.arguments:
        if argument.keyword_only and "*" not in written:
            written.append("*")
        hint = ANNOTATIONS[argument.kind] + (" | None" if argument.optional else "")
        default = f" = {_literal(argument.default)}" if argument.has_default else ""
        written.append(f"{argument.name}: {hint}{default}")
    return written


def _tuple(items: list[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    return repr(value)


def _key(argument: Argument) -> list[str]:
    """What a call's composite depends on in one argument, as hashable expressions."""
    name = argument.name
    if argument.is_tensor and argument.optional:
        return [f"None if {name} is None else ({name}.shape, {name}.dtype)"]
    if argument.is_tensor:
        return [f"{name}.shape", f"{name}.dtype"]
    if argument.kind in ("ints", "floats", "bools"):
        return [
            f"None if {name} is None else tuple({name})" if argument.optional else f"tuple({name})"
        ]
    if argument.kind == "scalar":  # 1, 1.0 and True are equal, and lower differently
        return [name, f"type({name})"]
    return [name]


def _matches(entry: Composite, operator: Operator) -> str:
    """The entry's conditions as an expression; a tensor that is no operand must be None."""
    first = entry.operands[0]
    terms = [
        f"{argument.name} is None"
        for argument in operator.tensors
        if argument.name not in entry.operands
    ]
    terms += [f"{name} in {values!r}" for name, values in entry.when.values]
    if entry.when.ranks:
        terms.append(f"{first}.dim() in {entry.when.ranks!r}")
    if entry.when.dtypes:
        dtypes = _tuple([f"torch.{ELEMENT_TYPES[dtype]}" for dtype in entry.when.dtypes])
        for name in entry.operands:
            argument = _argument(entry, name)
            absent = f"{name} is None or " if argument.optional else ""
            term = f"{name}.dtype in {dtypes}"
            terms.append(f"({absent}{term})" if absent else term)
    return " and ".join(terms) or "True"


def _argument(entry: Composite, name: str) -> Argument:
    argument = find_operator(entry.op).argument(name)
    assert argument is not None  # the registry was checked
    return argument


@cache
def _writers() -> dict[str, str]:
    """The name of each attribute type's writer in `lowering.emission.attributes`."""
    return {type_: writer.__name__ for type_, writer in attributes.WRITERS.items()}


def _attribute(attribute: Attribute, entry: Composite) -> str:
    writer = f"_attr.{_writers()[attribute.type]}"
    if attribute.argument is None:
        return f"{writer}({attribute.value!r})"
    value = attribute.argument
    if attribute.normalize:
        many = attribute.type.endswith("[]")
        value = f"_attr.{'dims' if many else 'dim'}({value}, {entry.operands[0]}.dim())"
    elif _argument(entry, attribute.argument).kind == "dtype":
        value = f"_attr.element_type({value})"
    if attribute.optional:
        return f"None if {attribute.argument} is None else {writer}({value})"
    return f"{writer}({value})"


def _result(entry: Composite, operands: list[str], optional: set[str], returns: int) -> str:
    # torch wants `namespace::name`; a name with dots is as good as one without.
    symbol = repr(f"{entry.namespace}::{entry.name}")
    passed = _tuple(operands)
    if optional.intersection(operands):
        passed = f"[t for t in {passed} if t is not None]"
    call = f"_insert({symbol}, {passed}, _computation)"
    return f"{call}[0]  # type: ignore[no-any-return]" if returns == 1 else f"tuple({call})"


def _one_line(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]", "?", text)
