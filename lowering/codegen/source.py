"""From a registry to Python source: one readable, typed hook for each entry.

A hook passes its call on as a `CallSpec`, in plain values. Text from a YAML file reaches the source
only as names that a pattern and PyTorch's schema have checked. Targets of decompositions,
conditions and attributes do not appear at all.
"""

import keyword
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from composites.errors import RegistryError, UnusableFunctionError
from composites.registry.conditions import ConditionError
from composites.registry.model import Composite, Registry
from composites.registry.operators import Argument, Operator, UnknownOperatorError, find_operator
from composites.registry.signatures import callee_of, describe_function
from lowering.codegen.conditions import condition_expressions, tensors_left_out
from lowering.codegen.paths import is_owner, local, read_paths
from lowering.codegen.python_text import written_parameters, written_tuple

Level = Literal["backend", "autograd", "functions"]
"""Where a hook takes calls: at the backend's dispatch key, at autograd's, or from functions."""


@dataclass(frozen=True, slots=True)
class Hook:
    """The parts of one hook's source, for the template."""

    level: Level
    function: str
    summary: str
    key_text: str
    """The entry's key in its registry, as source."""
    schema: str
    parameters: list[str]
    paths: list[tuple[str, str]]
    """Local names, and the expressions read from arguments, such as `self.weight`."""
    key: str
    operands: str
    arguments: str
    """The arguments that are not operands, by name."""
    tensors: str
    """The composite's operands, then the tensors that are None in calls that the entry takes."""


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
    hooks: list[Hook | None] = []
    for entry in registry.composites:
        try:
            hooks.append(_entry_hook(entry, functions[registry.key(entry)], registry))
        except (UnusableFunctionError, UnknownOperatorError, ConditionError) as error:
            raise RegistryError([entry.location.problem(str(error), entry.name)]) from error
    return _render(source, registry, [hook for hook in hooks if hook is not None])


def function_hook_source(
    entry: Composite, function: Callable[..., Any], target: str, registry: Registry
) -> str:
    """The source of an entry's hook for a Python function that it catches.

    Raises:
        UnusableFunctionError: the entry names an argument that the function does not have.
        ConditionError: a condition of the entry does not fit the function.
    """
    operator = describe_function(function, target)
    hook = _hook(entry, "hook_of_function", operator, registry, "functions")
    return _render(registry.source, registry, [hook])


def _entry_hook(entry: Composite, name: str, registry: Registry) -> Hook | None:
    """The hook of an entry; None for an entry whose hooks are made when functions are replaced."""
    if entry.op is not None and entry.adapt is None:
        operator = find_operator(entry.op)
        at_autograd = is_caught_at_autograd(entry, operator, registry)
        return _hook(entry, name, operator, registry, "autograd" if at_autograd else "backend")
    if entry.adapt is None and not entry.gradients:
        return None
    callee = callee_of(entry)
    assert callee is not None
    return _hook(entry, f"{name}_function", callee, registry, "functions")


def _render(source: str, registry: Registry, hooks: Sequence[Hook]) -> str:
    template = _environment().get_template("hooks.py.jinja")
    rendered: str = template.render(
        source=_one_line(source), namespace=registry.namespace, hooks=hooks
    )
    return rendered


def is_caught_at_autograd(entry: Composite, operator: Operator, registry: Registry) -> bool:
    """Return whether an entry must catch its operator before PyTorch decomposes it."""
    return (
        operator.implicit_autograd
        or entry.derives
        or explicit_backward(entry, registry) is not None
    )


def explicit_backward(entry: Composite, registry: Registry) -> Composite | None:
    """The entry that is the backward of `entry` and has no operator; None if there is none."""
    backward = registry.backward_of(entry)
    return backward if backward is not None and backward.gradients else None


def operator_name(entry: Composite) -> str:
    """The name, in graphs of Dynamo, of the calls of a function that an entry catches."""
    name = f"{entry.namespace}__{entry.name}__v{entry.version}"
    # `a.b` and `a_b` are two entries.
    return re.sub(r"[^a-zA-Z0-9_]", lambda match: f"_x{ord(match[0]):x}_", name)


def _function_names(registry: Registry) -> dict[str, str]:
    """A Python name for each entry. Entry names can contain dots and `$`, and can be keywords."""
    taken = {
        "torch", "Tensor", "Number", "Any", "EntryLowering", "CompositeFunction", "CallSpec",
        "_tuple", "_type", "_key_of", "_owner_key", "_tensor_key", "_value_key", "BACKEND_HOOKS",
        "AUTOGRAD_HOOKS", "FUNCTION_HOOKS",
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


def _hook(
    entry: Composite, function: str, operator: Operator, registry: Registry, level: Level
) -> Hook:
    """The parts of a hook for an operator or a Python function."""
    paths = check_arguments(entry, operator)
    first = ["_composite: CompositeFunction"]  # the parameters before those of the operator
    if level == "backend":
        summary = f"Lower calls as {entry.composite_name}, version {entry.version}."
        first = ["_lowering: EntryLowering"]
        key = [part for argument in operator.arguments for part in _key(argument)]
    else:
        summary = f"Take calls of a function as {entry.composite_name}."
        key = [_call_key(argument, entry, paths) for argument in operator.arguments]
        key += [_path_key(path, entry) for path in paths]
    if level == "autograd":
        caught = f"Catch {operator.qualified} as {entry.composite_name}"
        summary = f"{caught} before PyTorch decomposes it."
        first.append("_keys: Any")
    operands = [local(name) for name in entry.operands]
    arguments = (a.name for a in operator.arguments if a.name not in entry.operands)
    return Hook(
        level=level,
        function=function,
        summary=summary,
        key_text=repr(registry.key(entry)),
        schema=_one_line(operator.schema),
        parameters=[*first, *written_parameters(operator)],
        paths=[(local(path), path) for path in paths],
        key=written_tuple(key),
        operands=written_tuple(operands),
        arguments=f"{{{', '.join(f'{name!r}: {name}' for name in arguments)}}}",
        tensors=", ".join([*operands, *tensors_left_out(entry, operator)]),
    )


def check_arguments(entry: Composite, operator: Operator) -> list[str]:
    """Check that an entry fits its operator or function. Return the paths that it reads.

    Raises:
        UnusableFunctionError: an argument does not exist, or has a name that hooks or conditions
            use.
        ConditionError: a condition does not fit.
    """
    paths = read_paths(entry, operator)
    # All other names in a hook begin with an underscore, which no argument's name does.
    taken = {"torch", *map(local, paths)}
    expressions = list(condition_expressions(entry, operator))
    taken |= {name for name in ("len", "float") if any(f"{name}(" in e for e in expressions)}
    for argument in operator.arguments:
        if argument.name in taken:
            raise UnusableFunctionError(
                f"{operator.schema} has an argument named {argument.name}, which the code of its"
                " hook uses for something else; rename the argument"
            )
    return paths


def _call_key(argument: Argument, entry: Composite, paths: Sequence[str]) -> str:
    if is_owner(argument, entry, paths):
        return f"_{'type' if argument.name == 'self' else 'owner_key'}({argument.name})"
    return _path_key(argument.name, entry)


def _path_key(path: str, entry: Composite) -> str:
    return f"_{'tensor' if path in entry.operands else 'value'}_key({local(path)})"


def _key(argument: Argument) -> list[str]:
    """The parts of an argument that a call's composite depends on, as hashable expressions."""
    name = argument.name
    if argument.is_tensor and argument.optional:
        return [f"None if {name} is None else ({name}.shape, {name}.dtype)"]
    if argument.is_tensor:
        return [f"{name}.shape", f"{name}.dtype"]
    if argument.kind == "scalar":
        return [f"_key_of({name})"]
    if argument.kind not in ("tensors", "ints", "floats", "bools"):
        return [name]
    items = f"[(t.shape, t.dtype) for t in {name}]" if argument.is_list else name
    key = f"_tuple({items})"
    return [f"None if {name} is None else {key}" if argument.optional else key]


def _one_line(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]", "?", text)
