"""`@composite("acme.swiglu")`: make one of the user's own functions a composite."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeVar

from composites.attribute_types import SEGMENT_SIZES
from composites.contracts.model import AttributeSpec
from composites.errors import CompositesWarning, Problem, RegistryError, UnusableFunctionError
from composites.functions import named_signature
from composites.registry.document import ATTRIBUTE_NAME, NAME, NAMESPACE
from composites.registry.mistakes import problems_of_intermediates, problems_of_saves
from composites.registry.model import DERIVE, Composite, Decomposition, Location, Registry, When
from composites.registry.signatures import describe_function
from lowering.frontends.chosen import package
from lowering.import_hook import after_import

if TYPE_CHECKING:
    from lowering.dispatch.compiled_functions import Replacement

Function = TypeVar("Function", bound=Callable[..., Any])

_JAX = ("jax", "jaxlib")

ENTRY = "__composite__"
"""The attribute of a function under `@composite` that is its entry."""


def composite(
    name: str,
    *,
    operands: Sequence[str] | None = None,
    attributes: Sequence[str] | Mapping[str, str] = (),
    version: int = 1,
    saves: Sequence[str] | None = None,
    intermediates: Sequence[str] = (),
) -> Callable[[Function], Function]:
    """Make a function of tensors one composite wherever it is called with XLA tensors.

    The function's body is the decomposition, and the composite's backward, `<name>_backward`, is
    derived from it. Composites that the body calls stay nested in the decomposition. The composite
    does not need to be in the allowlist. The undecorated function runs with tensors of other
    devices; with JAX arrays, with a warning (use `composites.jax.composite` for these); and under
    torch.compile, if it is a method, reads tensors other than its arguments, or returns anything
    but tensors, tuples or lists.

    The function may be a method, static method or class method, with the decorators in either
    order. Values that it reads from `self` or `cls` are listed as paths such as `self.weight`.

    Args:
        name: the composite's name, `namespace.name`.
        operands: tensor arguments in the composite's order, including paths such as `self.weight`,
            and lists of tensors; by default every argument that is not an attribute.
        attributes: the other arguments, which become attributes of the composite: bool, int (i64),
            float (f32), str, or lists of one of these. A mapping gives each attribute's name and
            its argument or path, as in `{"eps": "self.eps"}`.
        version: the version of the composite's meaning.
        saves: operands and results (`result`, `result.1`) that the backward takes; by default all
            operands. The backward is computed from these alone, so list all that it reads.
        intermediates: names of values that the function gives to `composites.intermediate`. The
            forward returns them for the backward, which then does not compute them again.

    Raises:
        RegistryError: the name is not valid, the function does not have a listed argument, `saves`
            lists something else, or the function takes `*args` or `**kwargs`, or is async or a
            generator.
    """

    check_name(name, "composites.composite")

    def decorate(decorated: Function) -> Function:
        if isinstance(decorated, staticmethod | classmethod):
            kind = type(decorated)
            return kind(decorate(decorated.__func__))
        function = decorated
        entry = make_entry(
            function,
            name,
            operands=operands,
            attributes=attributes,
            version=version,
            saves=saves,
            intermediates=intermediates,
        )
        unclaimed = _warning_of_jax(entry, function)
        replacements: list[Replacement] = []  # empty until torch_xla is imported
        last = package().LAST_IMPORTED_MODULE
        after_import(last, lambda: replacements.append(_replacement(entry, function, unclaimed)))

        # `composites verify` reads the entry from this attribute.
        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            called = replacements[0] if replacements else unclaimed
            return called(*arguments, **keywords)

        setattr(call, ENTRY, entry)
        return call  # type: ignore[return-value]

    return decorate


def check_name(name: object, decorator: str) -> None:
    """Check that a decorator was called with a name, and not with the function itself.

    Raises:
        RegistryError: the name is not a string.
    """
    if isinstance(name, str):
        return
    code = getattr(inspect.unwrap(name), "__code__", None) if callable(name) else None
    file, line = (code.co_filename, code.co_firstlineno) if code else (f"@{decorator}", 0)
    label = getattr(name, "__qualname__", repr(name))
    short = getattr(name, "__name__", "name")
    problem = f'{label} is not the name of a composite; write @{decorator}("namespace.{short}")'
    raise RegistryError([Problem(file, line, None, problem)])


def make_entry(
    function: Callable[..., Any],
    name: str,
    *,
    operands: Sequence[str] | None,
    attributes: Sequence[str] | Mapping[str, str],
    version: int,
    saves: Sequence[str] | None,
    intermediates: Sequence[str] = (),
    is_jax: bool = False,
) -> Composite:
    """Make the entry of a function under a decorator; see `composite` for the arguments.

    Args:
        is_jax: True if the function takes JAX arrays.

    Raises:
        RegistryError: the decorator's arguments do not fit the function.
    """
    if isinstance(function, type) or not hasattr(function, "__qualname__"):
        description = function.__qualname__ if isinstance(function, type) else repr(function)
        problem = f"{description} is not a function; put @composite on a function or a method"
        raise RegistryError([Problem(getattr(function, "__module__", ""), 0, name, problem)])
    target = f"{function.__module__}:{function.__qualname__}"
    code = getattr(inspect.unwrap(function), "__code__", None)
    location = Location(code.co_filename, code.co_firstlineno) if code else Location(target, 0)
    try:
        parameters = list(named_signature(function, target).parameters)
    except UnusableFunctionError as error:
        raise RegistryError([location.problem(str(error), name)]) from error

    def refused(problems: Sequence[str]) -> RegistryError:
        return RegistryError([location.problem(problem, name) for problem in problems])

    if kind := _deferred(function):
        path = function.__qualname__
        raise refused([f"{path} is {kind}, and a composite returns its results when it is called"])
    namespace, _, short_name = name.rpartition(".")
    sources = (  # by the names of arguments, or by the last parts of paths
        attributes
        if isinstance(attributes, Mapping)
        else {source.rpartition(".")[2]: source for source in attributes}
    )
    owner = find_owner(function, parameters)
    listed = parameters if operands is None else operands
    problems = [
        f"{function.__qualname__} has no argument {item!r}; it has {', '.join(parameters)}"
        for item in (*listed, *sources.values())
        if item.partition(".")[0] not in parameters
    ]
    problems += [
        f"{item!r} has more than one step; list an attribute of {item.partition('.')[0]}, such as"
        f" {'.'.join(item.split('.')[:2])}, or take the value as an argument"
        for item in (*listed, *sources.values())
        if item.count(".") > 1
    ]
    if type(version) is not int or not 0 <= version < 2**31:
        problems.append(f"version={version!r} is not a whole number from 0 on")
    problems += [
        f"{item!r} is not the name of an attribute; write letters, digits and _"
        for item in sources
        if not ATTRIBUTE_NAME.fullmatch(item) or item == SEGMENT_SIZES
    ]
    if not isinstance(attributes, Mapping) and len(sources) < len(attributes):
        problems.append(
            f"two of the attributes {', '.join(attributes)} have one name; write a mapping of names"
            ' to arguments, as in {"eps": "self.eps"}'
        )
    operand_names = tuple(item for item in listed if item not in (*sources.values(), owner))
    problems += problems_of_saves(saves or (), operand_names)
    if isinstance(intermediates, str):
        problems.append(f'intermediates: "{intermediates}" is one string; write a list of names')
    if not (NAMESPACE.fullmatch(namespace) and NAME.fullmatch(short_name)):
        problems.append(f"{name!r} is not a valid composite name; write namespace.name")
    if problems:
        raise refused(problems)
    saved_values = operand_names if saves is None and intermediates else saves
    entry = Composite(
        namespace=namespace,
        name=short_name,
        composite=short_name,
        op=None,
        functions=(target,),
        version=version,
        operands=operand_names,
        attributes=tuple(
            AttributeSpec(n, optional=True, argument=source) for n, source in sources.items()
        ),
        when=When(),
        decomposition=Decomposition("jax", target) if is_jax else Decomposition(),
        backward=DERIVE,
        location=location,
        saves=None if saved_values is None else (*saved_values, *intermediates),
        saved=tuple((name, None) for name in intermediates),
    )
    problems = list(problems_of_intermediates(entry.intermediates, entry))
    if problems:
        raise refused(problems)
    return entry


def _deferred(function: Callable[..., Any]) -> str | None:
    """The kind of a function whose call does not run its body yet; None for other functions."""
    if inspect.iscoroutinefunction(function):
        return "an async function"
    is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    return "a generator function" if is_generator else None


def find_owner(function: Callable[..., Any], parameters: Sequence[str]) -> str | None:
    """The argument of a method that is its object or class; None for other functions.

    A function may have a tensor `cls`, such as the token of a classifier.
    """
    first = parameters[0] if parameters else None
    if first == "self":
        return first
    outer = function.__qualname__.rpartition(".")[0]
    in_class = bool(outer) and not outer.endswith("<locals>")
    annotated = first in getattr(function, "__annotations__", {})
    return first if first == "cls" and in_class and not annotated else None


def _warning_of_jax(entry: Composite, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for calls that are not composites, with one warning if it is called with JAX
    arrays, on which a function of plain operators works too."""
    warned: list[bool] = []

    def run(*arguments: Any, **keywords: Any) -> Any:
        if not warned and any(_is_jax_array(value) for value in (*arguments, *keywords.values())):
            warned.append(True)
            warnings.warn(
                f"{entry.location}: {entry.qualified}: {function.__qualname__} was called with JAX"
                " arrays, for which it is not a composite; decorate functions of JAX arrays with"
                f' @composites.jax.composite("{entry.qualified}")',
                CompositesWarning,
                stacklevel=3,
            )
        return function(*arguments, **keywords)

    return run


def _is_jax_array(value: Any) -> bool:
    # This does not import jax, and is faster than `isinstance(value, jax.Array)`.
    return type(value).__module__.partition(".")[0] in _JAX and isinstance(
        value, sys.modules["jax"].Array
    )


def _replacement(
    entry: Composite, function: Callable[..., Any], unclaimed: Callable[..., Any]
) -> Replacement:
    from lowering.activation import backend, statistics
    from lowering.codegen.loader import load_function_hook
    from lowering.dispatch.autograd.function import CompositeFunction
    from lowering.dispatch.call import CallForm
    from lowering.dispatch.compiled_functions import Replacement, traced_function
    from lowering.dispatch.definition import ActiveEntry
    from lowering.dispatch.reads import Reads

    target, current = entry.functions[0], backend()
    registry = Registry(entry.location.file, entry.namespace, (entry,))
    counted = statistics.for_entry(entry, always_on=True)
    reads = Reads(function)
    form = CallForm(entry, describe_function(function, target))
    definition = ActiveEntry(form, current.frontend, counted, function, reads=reads)
    called = CompositeFunction(definition, current.compiled_calls, unclaimed)
    counted.caches |= {"forward": called.forward, "derived backward": definition.derived}
    hook = MethodType(load_function_hook(entry, function, target, registry), called)
    return Replacement(hook, traced_function(definition, function, target, hook, function, reads))
