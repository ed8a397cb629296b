"""The description of an entry that `composites show` prints, as frozen data.

A description is made from an entry and its catalog. This module prints nothing.
"""

import inspect
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from composites.allowlist import resolve
from composites.contracts.model import Contract
from composites.errors import (
    AllowlistError,
    CompositesError,
    MissingPackageError,
    UnusableFunctionError,
)
from composites.functions import find_function
from composites.registry.catalog import Catalog
from composites.registry.contracts import forward_contract
from composites.registry.model import Composite, Registry, split_version
from composites.registry.operators import Operator
from composites.registry.reference import facts
from composites.registry.samples import samples_of
from composites.registry.signatures import describe_function
from composites.settings import ALLOWLIST, REGISTRIES
from lowering.cli.listing import PrintedKernel, listed_kernels
from lowering.codegen.loader import hooks_source, load_function_hook
from lowering.sample_calls import NoCalls
from lowering.verification.tolerances import TOLERANCES


@dataclass(frozen=True, slots=True)
class Description:
    """An entry in the form that `composites show --json` prints."""

    name: str
    """The name with its namespace, as XLA_COMPOSITE_OP takes it."""
    file: str
    line: int
    package: str | None
    """The installed package whose registry has the entry; None for a registry file."""
    builtin: bool
    turn_on: str
    """The text that a user writes before the command that runs a program."""
    also_made_by: Sequence[str]
    """Other entries that produce the same composite."""
    contract: Contract
    """Composite, version, operands, attributes, results and conditions, in the form of a lock."""
    facts: Sequence[str]
    """The statements about the entry on the reference page of its registry."""
    backward: str | None
    """The StableHLO name of the composite that computes the gradients; None if there is none."""
    dtypes: Sequence[str]
    """The element types of the calls that the entry takes; empty for all."""
    frontends: Sequence[str]
    """The programs that can have the entry: of torch_xla (`xla`), of PyTorch without torch_xla
    (`fx`), and of JAX (`jax`)."""
    not_in_jax: str | None
    """The reason why JAX programs cannot have the entry; None if they can."""
    targets: Sequence[str]
    """The targets of `composites lower --target` that take the example call."""
    tolerance: Mapping[str, float]
    """The largest accepted error of `composites verify`, by element type; 0 for other types."""
    alternatives: Mapping[str, Mapping[str, Any]]
    """Other decompositions, in the form of a registry file."""
    kernels: Sequence[PrintedKernel]
    """Kernels that registries list for the entry and for its backward, with their platforms."""
    not_found: Sequence[str]
    """Functions that the entry catches and that are not installed."""
    hook: str
    """The generated source of the hooks; empty if it cannot be made on this machine."""
    stablehlo: str | None
    """The StableHLO of an example call; for a backward, of the gradients of an example call."""
    stablehlo_of_backward: str | None
    """The StableHLO of the gradients, if the backward is derived."""
    no_stablehlo: str | None
    """The reason why there is no StableHLO, with advice."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The output of `composites show --json`."""

    composites: Sequence[Description]


def chosen(name: str, catalog: Catalog) -> tuple[Composite, ...]:
    """The entries that a name stands for, as in XLA_COMPOSITE_OP, but without backward entries.

    Raises:
        AllowlistError: no entry has the name, or entries of several vendors.
    """
    if name == "all" or name.endswith(".*"):
        return resolve([name], catalog)
    entries, (plain, _) = catalog.find(name), split_version(name)
    named = tuple(entry for entry in entries if plain in (entry.name, entry.qualified))
    return named if len(named) == 1 else entries


def described(entry: Composite, catalog: Catalog, *, tried: bool = True) -> Description:
    """Describe an entry.

    Args:
        tried: True to trace the entry in JAX, and to lower its example call for each target.
    """
    registry = next(r for r in catalog.registries if any(e is entry for e in r.composites))
    stablehlo, gradients, why_not = _example(entry, catalog)
    installed = [target for target, _ in _functions(entry)]
    backward = _backward(entry, registry)
    not_in_jax = _not_in_jax(entry, catalog) if tried else None
    return Description(
        name=catalog.label(entry),
        file=entry.location.file,
        line=entry.location.line,
        package=registry.package,
        builtin=registry.builtin,
        turn_on=_turn_on(catalog.label(entry), registry),
        also_made_by=tuple(
            catalog.label(listed)
            for listed in catalog
            if listed.composite_name == entry.composite_name and listed is not entry
        ),
        contract=forward_contract(entry),
        facts=tuple(facts(entry, registry)),
        backward=backward,
        dtypes=entry.when.dtypes,
        frontends=("xla", "fx") if not_in_jax else ("xla", "fx", "jax"),
        not_in_jax=not_in_jax,
        targets=_targets(stablehlo) if tried and stablehlo is not None else (),
        tolerance={**TOLERANCES, **dict(entry.tolerance)},
        alternatives={
            kernel.name: replace(kernel, samples=samples_of(kernel)).document
            for kernel in entry.alternatives
        },
        kernels=tuple(
            kernel
            for kernel in listed_kernels(catalog)
            if kernel.composite in (entry.composite_name, backward)
            and kernel.version in (None, entry.version)
        ),
        not_found=tuple(target for target in entry.functions if target not in installed),
        hook=_hook(entry, registry),
        stablehlo=stablehlo,
        stablehlo_of_backward=gradients,
        no_stablehlo=why_not,
    )


def _backward(entry: Composite, registry: Registry) -> str | None:
    if entry.backward is None or entry.derives:
        return entry.backward_name if entry.derives else None
    backward = registry.backward_of(entry)
    return None if backward is None else backward.composite_name


def _not_in_jax(entry: Composite, catalog: Catalog) -> str | None:
    try:
        from lowering.jax_entries.availability import availability
        from lowering.jax_entries.entries import Entries

        (answer,) = availability(Entries(catalog), [entry.identity])
    except (CompositesError, ImportError) as error:
        return str(error)
    return answer.reason


def _targets(program: str) -> tuple[str, ...]:
    from lowering.stablehlo import TARGETS, Module, StableHLOError, run_passes, target_passes

    taking = []
    for name in TARGETS:
        with suppress(StableHLOError):
            run_passes(Module.parse(program), target_passes(name))
            taking.append(name)
    return tuple(taking)


def _turn_on(label: str, registry: Registry) -> str:
    name = label.removeprefix(f"{registry.namespace}.") if registry.builtin else label
    written = f"{ALLOWLIST.name}={shlex.quote(name)}"
    if registry.builtin or registry.package is not None:
        return written
    return f"{REGISTRIES.name}={shlex.quote(registry.source)} {written}"


def _functions(entry: Composite) -> Iterator[tuple[str, Operator]]:
    """The installed functions that an entry catches, with their descriptions."""
    for target in entry.functions:
        try:
            yield target, describe_function(find_function(target), target)
        except UnusableFunctionError:  # such as functions of transformers, which may be missing
            continue


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


def _example(entry: Composite, catalog: Catalog) -> tuple[str | None, str | None, str | None]:
    """The StableHLO of an example call and of its gradients, or the reason why there is none."""
    on = f"{ALLOWLIST.name}={catalog.label(entry)}"
    real = f"`{on} composites run SCRIPT` shows the calls of a real program"
    try:
        from lowering.locking import example_text

        text = example_text(entry, catalog)
        if isinstance(text, NoCalls):
            return None, None, f"{text.reason}; {real}"
        if f'"{entry.composite_name}"' not in text:
            return None, None, f"the entry does not claim the call that was made; {real}"
        gradients = example_text(entry, catalog, gradients=True) if entry.derives else None
        return text, None if isinstance(gradients, NoCalls) else gradients, None
    except MissingPackageError as error:
        why_not = str(error)
    except ImportError as error:  # the torch_xla does not fit the installed torch
        why_not = f"torch_xla cannot be imported ({error}); `composites doctor` says why"
    except CompositesError as error:
        why_not = f"{error}; `composites check {shlex.quote(entry.location.file)}` says more"
    except Exception as error:  # torch_xla may refuse a call that PyTorch accepts on the CPU
        first = str(error).partition("\n")[0]
        why_not = f"the example call fails ({type(error).__name__}: {first}); {real}"
    return None, None, why_not
