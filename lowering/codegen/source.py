"""From a registry to Python source: one readable, typed hook for each entry.

Text from a YAML file reaches the source only as names that a pattern and PyTorch's schema have
checked, or as the `repr` of a constant. Targets of decompositions do not appear at all.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import torch

from composites import attribute_types
from composites.element_types import PYTORCH_NAMES
from composites.errors import RegistryError, UnusableFunctionError, did_you_mean
from composites.python_syntax import parse_expression
from composites.registry.condition_types import ANY
from composites.registry.conditions import ConditionError, compile_condition
from composites.registry.model import Attribute, Composite, Registry
from composites.registry.operand_lists import (
    has_segment_sizes,
    is_list,
    is_optional,
    may_have_segment_sizes,
)
from composites.registry.operators import (
    ANNOTATIONS,
    Argument,
    Operator,
    UnknownOperatorError,
    find_operator,
)
from composites.registry.signatures import callee_of, describe_function


@dataclass(frozen=True, slots=True)
class Hook:
    """The parts of one hook's source, for the template."""

    function: str
    composite: str
    key_text: str
    version: int
    schema: str
    parameters: list[str]
    arguments: str
    operand_tuple: str
    tensors: list[str]
    """The composite's operands, then the tensors that are None in calls that the entry takes."""
    call_parameters: list[str]
    """The same as the parameters of `call`."""
    key: str
    unmet: str | None
    attributes: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class CompositeHook:
    """The parts of a hook that passes its call to a `CompositeFunction`."""

    function: str
    composite: str
    key_text: str
    caught: str
    schema: str
    parameters: list[str]
    arguments: str
    """The same arguments, to pass them on."""
    paths: list[tuple[str, str]]
    """Local names, and the expressions read from arguments, such as `self.weight`."""
    key: str
    operand_tuple: str
    operands: list[str]
    unmet: str | None
    attributes: list[tuple[str, str]]
    call: str
    values: list[tuple[str, str]]
    """The arguments that an explicit backward may take, by name."""


@cache
def _environment() -> Any:
    import jinja2  # not needed for hooks that have already been generated

    return jinja2.Environment(
        loader=jinja2.PackageLoader("lowering.codegen", package_path=""),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )


def generate(registry: Registry, source: str) -> str:
    """The source of a registry's hooks. `source` is the file name for the header.

    Raises:
        RegistryError: an entry does not fit its operator or function.
    """
    functions = _function_names(registry)
    kernels: list[Hook] = []
    at_autograd: list[CompositeHook] = []
    adapted: list[CompositeHook] = []
    for entry in registry.composites:
        try:
            _add_hooks(
                entry, functions[registry.key(entry)], registry, kernels, at_autograd, adapted
            )
        except (UnusableFunctionError, UnknownOperatorError, ConditionError) as error:
            raise RegistryError([entry.location.problem(str(error), entry.name)]) from error
    return _render(source, registry, kernels, at_autograd, adapted)


def _add_hooks(
    entry: Composite,
    name: str,
    registry: Registry,
    kernels: list[Hook],
    at_autograd: list[CompositeHook],
    adapted: list[CompositeHook],
) -> None:
    values = explicit_backward(entry, registry) is not None
    if entry.op is not None and entry.adapt is None:
        operator = find_operator(entry.op)
        kernels.append(_hook(entry, name, operator, registry))
        if is_caught_at_autograd(entry, operator, registry):
            at_autograd.append(
                _composite_hook(entry, name, operator, registry, keyed=True, values=values)
            )
    elif entry.adapt is not None or entry.gradients:
        callee = callee_of(entry)
        assert callee is not None
        adapted.append(_composite_hook(entry, name, callee, registry, keyed=False, values=values))


def _render(
    source: str,
    registry: Registry,
    kernels: Sequence[Hook],
    at_autograd: Sequence[CompositeHook],
    functions: Sequence[CompositeHook],
) -> str:
    template = _environment().get_template("hooks.py.jinja")
    rendered: str = template.render(
        source=_one_line(source),
        namespace=registry.namespace,
        kernels=kernels,
        at_autograd=at_autograd,
        functions=functions,
    )
    return rendered


def is_caught_at_autograd(entry: Composite, operator: Operator, registry: Registry) -> bool:
    """Whether an entry must catch its operator before PyTorch decomposes it."""
    return (
        operator.implicit_autograd
        or entry.derives
        or explicit_backward(entry, registry) is not None
    )


def explicit_backward(entry: Composite, registry: Registry) -> Composite | None:
    """The entry that is the backward of this one and has no operator; None if there is none."""
    backward = registry.backward_of(entry)
    return backward if backward is not None and backward.gradients else None


def function_hook_source(
    entry: Composite, function: Callable[..., Any], target: str, registry: Registry
) -> str:
    """The source of an entry's hook for a Python function that it catches.

    Raises:
        UnusableFunctionError: the entry names an argument that the function does not have.
        ConditionError: a condition of the entry does not fit the function.
    """
    operator = describe_function(function, target)
    values = explicit_backward(entry, registry) is not None
    hook = _composite_hook(
        entry, "hook_of_function", operator, registry, keyed=False, values=values
    )
    return _render(registry.source, registry, [], [], [hook])


def condition_source(entry: Composite, function: Callable[..., Any], target: str) -> str:
    """The source of `matches(…)`: an entry's conditions on a call of `function`, for Dynamo.

    Dynamo ends with an error of its own where an index is out of range or None has no length. The
    source therefore calls `_item` and `_length`, whose errors Dynamo takes for the program's. It
    then leaves the call to the hook, which reports the condition.
    """
    operator = describe_function(function, target)
    parameters = ", ".join(_parameters(operator))
    conditions = " and ".join(c.expression for c in _conditions(entry, operator)) or "True"
    expression = ast.unparse(_Guarded().visit(parse_expression(conditions)))
    return (
        "from __future__ import annotations\n\n"
        f"def matches({parameters}) -> bool:\n    return {expression}\n"
    )


class _Guarded(ast.NodeTransformer):
    """`values[i]` as `_item(values, i)`, and `len(values)` as `_length(values)`."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.slice, ast.Slice):
            return node
        name = ast.Name("_item", ast.Load())
        return ast.copy_location(ast.Call(name, [node.value, node.slice], []), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "len":
            node.func = ast.copy_location(ast.Name("_length", ast.Load()), node.func)
        return node


def operator_name(entry: Composite) -> str:
    """Name of this project's own operator that represents an entry in compiled graphs."""
    name = f"{entry.namespace}__{entry.name}__v{entry.version}"
    # `a.b` and `a_b` are two entries.
    return re.sub(r"[^a-zA-Z0-9_]", lambda found: f"_x{ord(found[0]):x}_", name)


def _function_names(registry: Registry) -> dict[str, str]:
    """A Python name for each entry. Entry names can contain dots and `$`, and can be keywords."""
    taken = {
        "torch", "Tensor", "Number", "Any", "EntryLowering", "CompositeFunction", "_Arguments",
        "_all", "_tuple", "_type", "_key_of", "_attr", "_guarded_self", "_owner_key",
        "_tensor_key", "_value_key", "BACKEND_HOOKS", "AUTOGRAD_HOOKS", "FUNCTION_HOOKS",
    }  # fmt: skip
    functions: dict[str, str] = {}
    for entry in registry.composites:
        key = registry.key(entry)
        name = re.sub(r"\W", "_", key.replace("$", "_"), flags=re.ASCII)
        name = f"_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name
        while name in taken:
            name += "_"
        taken.add(name)
        functions[key] = name
    return functions


def _hook(entry: Composite, function: str, operator: Operator, registry: Registry) -> Hook:
    left_out = [a.name for a in operator.tensors if a.name not in entry.operands]
    _check_names(entry, operator, [])
    return Hook(
        function=function,
        composite=entry.composite_name,
        key_text=repr(registry.key(entry)),
        version=entry.version,
        schema=operator.schema,
        parameters=["_lowering: EntryLowering", *_parameters(operator)],
        arguments=", ".join(_passed(argument) for argument in operator.arguments),
        operand_tuple=_tuple(list(entry.operands)),
        tensors=[*entry.operands, *left_out],
        call_parameters=[*entry.operands, *(f"{name}=None" for name in left_out)],
        key=_tuple([part for argument in operator.arguments for part in _key(argument)]),
        unmet=_unmet(entry, operator, _checker("_lowering", registry)),
        attributes=_attributes(entry, operator),
    )


def _composite_hook(
    entry: Composite,
    function: str,
    operator: Operator,
    registry: Registry,
    *,
    keyed: bool,
    values: bool,
) -> CompositeHook:
    """The parts of a hook above the backend.

    Args:
        keyed: whether the dispatcher passes its dispatch keys as the first argument.
        values: whether an explicit backward may take the arguments that are not operands.
    """
    paths = _paths(entry, operator)
    _check_names(entry, operator, paths)
    operands = [_local(name) for name in entry.operands]
    call = [
        _with_tensors(a, entry) if _is_owner(a, entry, paths) else a.name
        for a in operator.arguments
    ]
    passed = [
        f"{a.name}={written}" if a.keyword_only else written
        for a, written in zip(operator.arguments, call, strict=True)
    ]
    arguments = [_passed(argument) for argument in operator.arguments]
    plain = [(repr(a.name), a.name) for a in operator.arguments if a.name not in entry.operands]
    return CompositeHook(
        function=function,
        composite=entry.composite_name,
        key_text=repr(registry.key(entry)),
        caught=operator.qualified,
        schema=_one_line(operator.schema),
        parameters=[
            "_composite: CompositeFunction",
            *(["_keys: Any"] if keyed else []),
            *_parameters(operator),
        ],
        arguments=", ".join(["_keys", *arguments] if keyed else arguments),
        paths=[(_local(path), path) for path in paths],
        key=_tuple(
            [_call_key(argument, entry, paths) for argument in operator.arguments]
            + [_path_key(path, entry) for path in paths]
        ),
        operand_tuple=_tuple(operands),
        operands=operands,
        unmet=_unmet(entry, operator, _checker("_composite", registry)),
        attributes=_attributes(entry, operator),
        call=", ".join(passed),
        values=plain if values else [],
    )


def _passed(argument: Argument) -> str:
    return f"{argument.name}={argument.name}" if argument.keyword_only else argument.name


def _check_names(entry: Composite, operator: Operator, paths: Sequence[str]) -> None:
    """Check that no argument has a name that the code of the hook uses.

    Raises:
        UnusableFunctionError: one has.
    """
    # No argument can have a name that begins with an underscore, as the others have.
    taken = {"torch", *map(_local, paths)}
    if any("len(" in text for text in entry.when.where):
        taken.add("len")
    if any("float(" in _literal(values) for _, values in entry.when.values):
        taken.add("float")
    for argument in operator.arguments:
        if argument.name in taken:
            raise UnusableFunctionError(
                f"{operator.schema} has an argument named {argument.name}, which the code of its"
                " hook uses for something else; rename the argument"
            )


def _local(path: str) -> str:
    return path.replace(".", "_")


def _paths(entry: Composite, operator: Operator) -> list[str]:
    """The paths that an entry reads, such as `self.weight`. The root of each must be an
    argument."""
    named = [
        *entry.operands,
        *(a.argument for a in entry.attributes if a.argument is not None),
        *(name for name, _ in entry.when.values),
    ]
    known = [argument.name for argument in operator.arguments]
    for name in named:
        root = name.partition(".")[0]
        if root not in known:
            raise UnusableFunctionError(
                f"{operator.schema} has no argument {root!r}{did_you_mean(root, known)}"
            )
    return list(dict.fromkeys(name for name in named if "." in name))


def _call_key(argument: Argument, entry: Composite, paths: Sequence[str]) -> str:
    if _is_owner(argument, entry, paths):
        return f"_{'type' if argument.name == 'self' else 'owner_key'}({argument.name})"
    return _path_key(argument.name, entry)


def _is_owner(argument: Argument, entry: Composite, paths: Sequence[str]) -> bool:
    """Whether an argument is an object from which the entry reads attributes, such as a method's
    `self`, or a class method's `cls`."""
    owned = any(path.startswith(f"{argument.name}.") for path in paths)
    usual = argument.name in ("self", "cls") and argument.name not in entry.operands
    return owned or (usual and argument.kind == "other")


def _path_key(path: str, entry: Composite) -> str:
    return f"_{'tensor' if path in entry.operands else 'value'}_key({_local(path)})"


def _with_tensors(argument: Argument, entry: Composite) -> str:
    """An owner argument with other tensors in place of those that the entry reads from it."""
    prefix = f"{argument.name}."
    tensors = [name.removeprefix(prefix) for name in entry.operands if name.startswith(prefix)]
    read = [a.argument for a in entry.attributes] + [name for name, _ in entry.when.values]
    listed = [*tensors, *(n.removeprefix(prefix) for n in read if n and n.startswith(prefix))]
    replaced = ", ".join(f"{name!r}: {argument.name}_{name}" for name in tensors)
    return f"_guarded_self({argument.name}, {tuple(listed)!r}, {{{replaced}}})"


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
    """A constant as source. Subclasses, such as enumerations, are written as what they extend."""
    if value is None or isinstance(value, bool | torch.dtype | torch.Size):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, tuple):
        return _tuple([_literal(item) for item in value])
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{float(value)}')"
    for type_ in (int, float, str):
        if isinstance(value, type_):
            return type_.__repr__(value)
    raise UnusableFunctionError(f"the default value {value!r} cannot be written as source")


def _key(argument: Argument) -> list[str]:
    """The parts of one argument that a call's composite depends on, as hashable expressions."""
    name = argument.name
    if argument.is_tensor and argument.optional:
        return [f"None if {name} is None else ({name}.shape, {name}.dtype)"]
    if argument.is_tensor:
        return [f"{name}.shape", f"{name}.dtype"]
    if argument.is_list:
        key = f"_tuple([(t.shape, t.dtype) for t in {name}])"
        return [f"None if {name} is None else {key}" if argument.optional else key]
    if argument.kind in ("ints", "floats", "bools"):
        return [
            f"None if {name} is None else _tuple({name})"
            if argument.optional
            else f"_tuple({name})"
        ]
    if argument.kind == "scalar":
        return [f"_key_of({name})"]
    return [name]


def _checker(owner: str, registry: Registry) -> str | None:
    """The function that reports a condition that fails; None if the conditions are our own."""
    return None if registry.builtin else f"{owner}.holds"


@dataclass(frozen=True, slots=True)
class _Condition:
    """One condition of an entry: an expression, and one for the text that says what is wrong."""

    expression: str
    otherwise: str


def _unmet(entry: Composite, operator: Operator, holds: str | None) -> str | None:
    """An expression for the first of the entry's conditions that a call does not meet, or None. It
    is None itself if the entry has no conditions.

    `holds` is the name of a function that evaluates a condition from its text and a lambda.
    """
    conditions = _conditions(entry, operator, holds)
    if not conditions:
        return None
    parts = [f"{c.otherwise} if not {_in_brackets(c.expression)}" for c in conditions]
    return f"({' else '.join(parts)} else None)"


def _in_brackets(expression: str) -> str:
    return expression if expression.startswith("(") else f"({expression})"


def _conditions(entry: Composite, operator: Operator, holds: str | None = None) -> list[_Condition]:
    """The conditions under which an entry claims a call.

    A tensor that is not an operand must be None. Consumers read operands by position, so an
    optional operand may be present only if the optional ones before it are, unless an attribute
    says which are there.
    """
    found = [
        _Condition(
            f"{argument.name} is None", repr(f"{argument.name} is given, and is not an operand")
        )
        for argument in operator.tensors
        if argument.name not in entry.operands
    ]
    optional = [name for name in entry.operands if is_optional(name, operator)]
    known = [name for name in optional if operator.argument(name) is not None]
    known = [] if has_segment_sizes(entry, operator) else known
    found += [
        _Condition(
            f"({a} is not None or {b} is None)", repr(f"the operand {b} is given, and {a} is not")
        )
        for a, b in pairwise(known)
    ]
    found += [_value_condition(name, values) for name, values in entry.when.values]
    found += _type_conditions(entry, operator)
    arguments = operator.kinds | {name: ANY for name in entry.operands if "." in name}
    for text in entry.when.where:
        condition = compile_condition(text, arguments)
        expression = f"{holds}({text!r}, lambda: {condition})" if holds else f"({condition})"
        found.append(_Condition(expression, repr(f"`where: {text}` does not hold")))
    return found


def _value_condition(name: str, values: Sequence[Any]) -> _Condition:
    local, wanted = _local(name), " or ".join(map(_literal, values))
    wanted = wanted.replace("{", "{{").replace("}", "}}")
    text = "f" + repr(f"{name} is {{{local}!r}}; the entry takes {wanted}")
    return _Condition(f"{local} in {_literal(tuple(values))}", text)


def _type_conditions(entry: Composite, operator: Operator) -> Iterator[_Condition]:
    if entry.when.ranks:
        first, ranks = _local(entry.operands[0]), " or ".join(map(str, entry.when.ranks))
        text = repr(f"the rank of {entry.operands[0]} is not {ranks}")
        term = f"{first}.dim() in {entry.when.ranks!r}"
        yield _Condition(_of_each(entry.operands[0], operator, term), text)
    if entry.when.dtypes:
        dtypes = _tuple([f"torch.{PYTORCH_NAMES[dtype]}" for dtype in entry.when.dtypes])
        wanted = ", ".join(PYTORCH_NAMES[dtype] for dtype in entry.when.dtypes)
        for name in entry.operands:
            absent = f"{_local(name)} is None or " if is_optional(name, operator) else ""
            term = _of_each(name, operator, f"{_local(name)}.dtype in {dtypes}")
            text = repr(f"the dtype of {name} is not one that the entry takes: {wanted}")
            yield _Condition(f"({absent}{term})" if absent else term, text)


def _of_each(operand: str, operator: Operator, term: str) -> str:
    """A condition on a tensor, for each tensor if the operand is a list."""
    if not is_list(operand, operator):
        return term
    item = term.replace(f"{_local(operand)}.", "_t.", 1)
    return f"_all([{item} for _t in {_local(operand)}])"


def _is_dtype(name: str, operator: Operator) -> bool:
    argument = operator.argument(name)
    return argument is not None and argument.kind == "dtype"


def _attributes(entry: Composite, operator: Operator) -> list[tuple[str, str]]:
    """The names of a composite's attributes, and expressions for their values."""
    found = [(repr(a.name), _attribute(a, entry, operator)) for a in entry.attributes]
    operands = ", ".join(map(_local, entry.operands))
    if has_segment_sizes(entry, operator):
        found.append((repr(attribute_types.SEGMENT_SIZES), f"_attr.segment_sizes({operands})"))
    elif may_have_segment_sizes(entry, operator):
        value = f"_attr.segment_sizes_of_lists({operands})"
        found.append((repr(attribute_types.SEGMENT_SIZES), value))
    return found


def _attribute(attribute: Attribute, entry: Composite, operator: Operator) -> str:
    type_ = attribute_types.attribute_type(attribute.type) if attribute.type else None
    writer = "_attr.by_value" if type_ is None else type_.source
    if attribute.argument is None:
        return f"{writer}({_literal(attribute.value)})"
    value = argument = _local(attribute.argument)
    if attribute.normalize:
        many = type_ is not None and type_.is_list
        first = _local(entry.operands[0])
        rank = f"_attr.rank({first})" if is_list(first, operator) else f"{first}.dim()"
        value = f"_attr.{'dims' if many else 'dim'}({value}, {rank})"
    elif _is_dtype(attribute.argument, operator):
        value = f"_attr.element_type({value})"
    if attribute.optional:
        return f"None if {argument} is None else {writer}({value})"
    return f"{writer}({value})"


def _one_line(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]", "?", text)
