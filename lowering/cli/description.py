"""What `composites show` prints: all that is known of an entry, as frozen data.

It is made of an entry and the catalog that the entry is part of. Nothing is printed here.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from composites.allowlist import resolve
from composites.attribute_types import SEGMENT_SIZES, types_of_argument, types_of_constant
from composites.contracts.model import Operand
from composites.errors import (
    AllowlistError,
    CompositesError,
    MissingPackageError,
    UnusableFunctionError,
)
from composites.functions import find_function
from composites.registry.catalog import Catalog
from composites.registry.model import Attribute, Composite, Registry, split_version
from composites.registry.operand_lists import has_segment_sizes
from composites.registry.operators import Operator, find_operator
from composites.registry.samples import samples_of
from composites.registry.signatures import callee_of, describe_function
from composites.settings import ALLOWLIST, REGISTRIES
from lowering.codegen.loader import hooks_source, load_function_hook
from lowering.codegen.source import is_caught_at_autograd
from lowering.copies.search import copies_everywhere
from lowering.frontends import chosen as frontends
from lowering.sample_calls import NoCalls


@dataclass(frozen=True, slots=True)
class DescribedAttribute:
    """An attribute, its type, and where its value comes from."""

    name: str
    type: str | None
    """None: each value has the type that fits it."""
    argument: str | None
    """The argument that it is; None for a constant."""
    value: Any
    """The constant."""
    normalized: bool
    """Whether a negative dimension is counted from the front."""
    optional: bool
    """Whether it is left out if its value is None."""


@dataclass(frozen=True, slots=True)
class Description:
    """An entry, as `composites show --json` prints it."""

    name: str
    """With its namespace, as XLA_COMPOSITE_OP takes it."""
    composite: str
    """The composite's name in StableHLO."""
    also_made_by: Sequence[str]
    """Other entries that produce the same composite."""
    version: int
    file: str
    line: int
    package: str | None
    """The installed package whose registry has it."""
    builtin: bool
    turn_on: str
    """What a user writes before the command that runs a program."""
    group: str | None
    op: str | None
    functions: Sequence[str]
    copies_in: Sequence[str]
    """Packages in which it catches the copies of these functions."""
    copies: Sequence[str] | None
    """The copies there; None if they were not asked for."""
    copies_unknown: Sequence[str]
    """Modules that cannot be imported, and why; they may have copies."""
    signatures: Sequence[str]
    """The operator's schema, or the signatures of those of the functions that are installed."""
    rewrites: Mapping[str, str]
    """Other calls that it catches, each with the function that rewrites them."""
    jax: Mapping[str, str]
    """JAX functions that it catches in JAX programs, each with the function that adapts them."""
    adapt: str | None
    caught_at: Sequence[str]
    """Dispatch keys of PyTorch; none where a Python function is replaced."""
    operands: Sequence[Operand]
    attributes: Sequence[DescribedAttribute]
    results: Sequence[str]
    """Types of the operator's results that the composite returns, or what they are."""
    when: Mapping[str, Any]
    """The conditions, as in a registry file."""
    decomposition: str
    alternatives: Mapping[str, Mapping[str, Any]]
    """Other decompositions, as in a registry file."""
    backward: str | None
    """The entry that is its backward, or the name that a derived backward has in StableHLO."""
    derived: bool
    saves: Sequence[str]
    """What a derived backward takes in addition to gradients."""
    hook: str
    """The generated source; empty if it cannot be made here."""
    stablehlo: str | None
    """Of an example call, or for a backward of the gradients of one."""
    stablehlo_of_backward: str | None
    """Of the gradients, where the backward is derived."""
    no_stablehlo: str | None
    """Why there is none, and what to do about it."""


def chosen(name: str, catalog: Catalog) -> tuple[Composite, ...]:
    """The entries that a name stands for, as in XLA_COMPOSITE_OP but without backwards.

    Raises:
        AllowlistError: there is none, or several vendors have one.
    """
    if name == "all" or name.endswith(".*"):
        return resolve([name], catalog)
    found, (plain, _) = catalog.find(name), split_version(name)
    named = tuple(entry for entry in found if plain in (entry.name, entry.qualified))
    return named if len(named) == 1 else found


def described(entry: Composite, catalog: Catalog, *, copies: bool = False) -> Description:
    """All that is known of an entry. For its `copies`, modules are imported."""
    registry = next(r for r in catalog.registries if any(e is entry for e in r.composites))
    callee = _callee(entry)
    found = copies_everywhere([entry]) if copies else None
    example = _example(entry, catalog)
    explicit = catalog.backward_of(entry)
    derived = entry.backward_name if entry.derives else None
    saves = entry.operands if entry.saves is None else entry.saves
    return Description(
        name=catalog.label(entry),
        composite=entry.composite_name,
        also_made_by=tuple(
            catalog.label(other)
            for other in catalog
            if other.composite_name == entry.composite_name and other is not entry
        ),
        version=entry.version,
        file=entry.location.file,
        line=entry.location.line,
        package=registry.package,
        builtin=registry.builtin,
        turn_on=_turn_on(catalog.label(entry), registry),
        group=entry.group,
        op=entry.op,
        functions=entry.functions,
        copies_in=entry.copies,
        copies=None if found is None else tuple(copy.target for copy in found[0]),
        copies_unknown=() if found is None else tuple(found[1]),
        signatures=tuple(_signatures(entry)),
        rewrites=dict(entry.rewrites),
        jax=dict(entry.jax),
        adapt=entry.adapt,
        caught_at=_caught_at(entry, registry),
        operands=tuple(_operand(name, callee) for name in entry.operands),
        attributes=tuple(_attributes(entry, callee)),
        results=_results(entry),
        when=entry.when.document,
        decomposition=str(entry.decomposition),
        alternatives={
            kernel.name: replace(kernel, samples=samples_of(kernel)).document
            for kernel in entry.alternatives
        },
        backward=derived if explicit is None else catalog.label(explicit),
        derived=entry.derives,
        saves=saves if entry.derives else (),
        hook=_hook(entry, registry),
        stablehlo=example.call,
        stablehlo_of_backward=example.gradients,
        no_stablehlo=example.why_not,
    )


def _turn_on(label: str, registry: Registry) -> str:
    name = label.removeprefix(f"{registry.namespace}.") if registry.builtin else label
    written = f"{ALLOWLIST.name}={shlex.quote(name)}"
    if registry.builtin or registry.package is not None:
        return written
    return f"{REGISTRIES.name}={shlex.quote(registry.source)} {written}"


def _functions(entry: Composite) -> Iterator[tuple[str, Operator]]:
    """The functions that an entry catches and that can be described here."""
    for target in entry.functions:
        try:
            yield target, describe_function(find_function(target), target)
        except UnusableFunctionError:  # such as those of a transformers that is not installed
            continue


def _signatures(entry: Composite) -> Iterator[str]:
    if entry.op is not None:
        yield find_operator(entry.op).schema
    for _, function in _functions(entry):
        yield function.schema


def _callee(entry: Composite) -> Operator | None:
    """What has the arguments that the entry's operands and attributes are named after."""
    if entry.adapt is None and entry.functions:
        return next((function for _, function in _functions(entry)), None)
    return callee_of(entry)


def _caught_at(entry: Composite, registry: Registry) -> tuple[str, ...]:
    if entry.op is None:
        return ()
    keys = frontends.package()
    if entry.adapt or is_caught_at_autograd(entry, find_operator(entry.op), registry):
        return (keys.AUTOGRAD_KEY, keys.FUNCTIONALIZATION_KEY)
    return (keys.DISPATCH_KEY,)


def _operand(name: str, callee: Operator | None) -> Operand:
    argument = callee.argument(name) if callee else None
    known = argument is not None and (argument.is_tensor or argument.is_list)
    return Operand(
        name,
        optional=known and argument is not None and argument.optional,
        variadic=argument is not None and argument.is_list,
    )


def _attributes(entry: Composite, callee: Operator | None) -> Iterator[DescribedAttribute]:
    for attribute in entry.attributes:
        yield _attribute(attribute, callee)
    if has_segment_sizes(entry, callee):
        yield DescribedAttribute(
            SEGMENT_SIZES, "i64[]", SEGMENT_SIZES, None, normalized=False, optional=False
        )


def _attribute(attribute: Attribute, callee: Operator | None) -> DescribedAttribute:
    value = _plain(attribute.value)
    types: Sequence[str] = () if attribute.type is None else (attribute.type,)
    if not types and attribute.argument is None:
        types = types_of_constant(value)
    elif not types and callee is not None and attribute.argument is not None:
        argument = callee.argument(attribute.argument)
        types = () if argument is None else types_of_argument(argument.kind)
    return DescribedAttribute(
        attribute.name,
        types[0] if types else None,
        attribute.argument,
        value,
        attribute.normalize,
        attribute.optional,
    )


def _plain(value: Any) -> Any:
    """A constant as a registry file holds it."""
    return [*map(_plain, value)] if isinstance(value, tuple) else value


def _results(entry: Composite) -> tuple[str, ...]:
    if entry.gradients:
        return tuple(f"the gradient of {name}" for name in entry.gradients)
    if entry.op is None or entry.adapt is not None:
        return ()
    types = find_operator(entry.op).results
    if entry.results:
        return tuple(f"{types[n]} (result {n} of the operator)" for n in entry.results)
    return types


def _hook(entry: Composite, registry: Registry) -> str:
    parts = [hooks_source(entry, registry)]
    if entry.adapt is None:
        for target, _ in _functions(entry):
            try:
                hook = load_function_hook(entry, find_function(target), target, registry)
                parts.append(inspect.getsource(hook))
            except UnusableFunctionError as error:
                parts.append(f"# {target}: {error}\n")
            except AllowlistError as error:  # the function does not fit
                parts.append(f"# {target}: {error.__cause__}\n")
    return "\n".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class _Example:
    call: str | None = None
    gradients: str | None = None
    why_not: str | None = None


def _example(entry: Composite, catalog: Catalog) -> _Example:
    """The StableHLO of an example call, or why there is none."""
    on = f"{ALLOWLIST.name}={catalog.label(entry)}"
    real = f"`{on} composites run SCRIPT` shows the calls of a real program"
    try:
        from lowering.preview import example_text

        text = example_text(entry, catalog)
        if isinstance(text, NoCalls):
            return _Example(why_not=f"{text.reason}; {real}")
        if f'"{entry.composite_name}"' not in text:
            return _Example(why_not=f"the entry does not claim the call that was made; {real}")
        gradients = example_text(entry, catalog, gradients=True) if entry.derives else None
    except MissingPackageError as error:
        return _Example(why_not=str(error))
    except ImportError as error:  # of a torch_xla that does not fit the torch that is installed
        why = f"torch_xla cannot be imported ({error}); `composites doctor` says why"
        return _Example(why_not=why)
    except CompositesError as error:
        check = f"`composites check {shlex.quote(entry.location.file)}` says more"
        return _Example(why_not=f"{error}; {check}")
    except Exception as error:  # torch_xla may refuse what PyTorch takes on the CPU
        said = str(error).partition("\n")[0]
        return _Example(why_not=f"the example call fails ({type(error).__name__}: {said}); {real}")
    return _Example(text, None if isinstance(gradients, NoCalls) else gradients)
