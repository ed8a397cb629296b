"""Checks that the entries of registries can be turned on. Each is turned on and off again.

`composites check` calls `try_entries` with registries and the catalog that they are part of. It
returns the problems that `enable`, and the first call of each composite, would report.
"""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import FunctionType

import torch

from composites.allowlist import resolve
from composites.errors import (
    AllowlistError,
    CompositesError,
    DecompositionError,
    LoweringError,
    MissingPackageError,
    Problem,
    UnusableFunctionError,
)
from composites.functions import find_function, import_module
from composites.registry.alternatives import check_functions
from composites.registry.catalog import Catalog
from composites.registry.model import Composite, Kernel, Registry
from composites.registry.operators import find_operator
from lowering import activation
from lowering.copies.codes import codes_in, find_spec, form
from lowering.copies.original import original_function
from lowering.copies.same import is_comparable
from lowering.dispatch.statistics import EntryStatistics, Statistics
from lowering.installation.install import misfit
from lowering.sample_calls import (
    ExampleCall,
    NoCalls,
    example_calls,
    first_line,
    is_adapted_function,
    refused_words,
)


@dataclass(frozen=True, slots=True)
class TrialReport:
    """The problems and remarks of a trial."""

    problems: tuple[Problem, ...]
    remarks: tuple[str, ...]
    """The checks that this machine cannot run, and problems of some sets of entries only."""


def try_entries(registries: Iterable[Registry], catalog: Catalog) -> TrialReport:
    """Turn on each entry of `registries` by itself, and its backward with it.

    Raises:
        MissingPackageError: torch_xla is not installed.
    """
    activation.backend()
    problems: list[Problem] = []
    remarks: list[str] = []
    with activation.all_off():
        for registry in registries:
            remarks.extend(_clashes(registry, catalog))
            problems.extend(_without_samples(registry))
            for entry in registry.composites:
                remarks.extend(_not_imported(entry))
                remarks.extend(_not_copied(entry))
                problems.extend(_not_turned_on(entry, catalog))
            problems.extend(_unusable((registry.source, registry.kernels_file), catalog))
            entry_kernels = (kernel for entry in registry.composites for kernel in entry.kernels)
            for kernel in (*registry.kernels, *entry_kernels):
                if kernel.platform is None:
                    continue  # see `_unusable`
                missing = _missing(kernel)
                if isinstance(missing, str):
                    remarks.append(missing)
                elif missing is not None:
                    problems.append(missing)
    # A backward is tried alone and with each of its forwards.
    return TrialReport(tuple(dict.fromkeys(problems)), tuple(dict.fromkeys(remarks)))


def _clashes(registry: Registry, catalog: Catalog) -> Iterator[str]:
    try:
        activation.check_clashes(catalog.highest(registry.composites), catalog)
    except AllowlistError as error:
        yield f"{registry.namespace}.* cannot be turned on: {error}"


def _without_samples(registry: Registry) -> Iterator[Problem]:
    """The reason why the module that a file names for samples cannot be imported."""
    if registry.samples is not None:
        module, location = registry.samples
        try:
            import_module(module)
        except UnusableFunctionError as error:
            yield Problem(location.file, location.line, None, f"samples: {error}")


def _not_imported(entry: Composite) -> Iterator[str]:
    """Import the modules of the functions that an entry catches, so that these are looked up.

    A missing module is only a remark: programs that do not use it lose nothing.
    """
    targets = (*entry.functions, *(name for name, _ in entry.rewrites if "::" not in name))
    for target in targets:
        try:
            import_module(target.partition(":")[0])
        except UnusableFunctionError as error:
            yield f"{entry.location}: {entry.name}: {target} was not checked: {error}"


def _not_copied(entry: Composite) -> Iterator[str]:
    """The packages in `copies` that are not installed."""
    for package in entry.copies:
        if find_spec(package) is None:
            yield f"{entry.location}: {entry.name}: copies: package {package} is not installed"


def _uncopied(entry: Composite) -> Iterator[str]:
    for target in entry.functions if entry.copies else ():
        try:
            function = original_function(find_function(target))
        except UnusableFunctionError:
            continue  # `function` has already reported this
        module, _, path = target.partition(":")
        code = codes_in(module).get(path)
        if code is None:
            yield f"copies: {target} is not a function in the file of its module"
        elif (
            not isinstance(function, FunctionType)
            or form(function.__code__) != form(code)
            or not is_comparable(code)
        ):
            yield (
                f"copies: {target} cannot have copies: a decorator wraps it, or it uses `super()`"
                " or a variable of an enclosing function, imports something, or writes a global"
                " variable; leave `copies` out, or name another function"
            )


def _misfitting(entry: Composite) -> Iterator[str]:
    """Rewrites that do not take all arguments of their operator or function."""
    for caught, target in entry.rewrites:
        try:
            positional, keywords = _arguments(caught)
            signature = inspect.signature(find_function(target))
        except (UnusableFunctionError, ValueError):  # the function is missing, or has no signature
            continue
        try:
            signature.bind(*positional, **dict.fromkeys(keywords))
        except TypeError as error:
            yield f"{misfit(caught, target)}: {error}"


def _arguments(caught: str) -> tuple[list[str], list[str]]:
    """The names of the positional arguments of an operator or a function, and of its keyword-only
    arguments."""
    if "::" in caught:
        arguments = find_operator(caught).arguments
        only = [argument.name for argument in arguments if argument.keyword_only]
        return [argument.name for argument in arguments if not argument.keyword_only], only
    function = find_function(caught)
    function = getattr(function, "__func__", function)  # a classmethod, which takes the class first
    kinds = {p.name: p.kind for p in inspect.signature(function).parameters.values()}
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    only = [name for name, kind in kinds.items() if kind is inspect.Parameter.KEYWORD_ONLY]
    return [name for name, kind in kinds.items() if kind in positional], only


def _not_turned_on(entry: Composite, catalog: Catalog) -> Iterator[Problem]:
    entries = resolve([entry.identity], catalog)
    for text in (*_uncopied(entry), *_misfitting(entry)):
        yield make_problem(text, entry, entries)
    if entry.samples is not None and not entry.samples_by_name:
        try:
            find_function(entry.samples)
        except UnusableFunctionError as error:
            yield make_problem(f"samples: {error}", entry, entries)
    if entry.op is not None:
        for argument, word, reason in refused_words(entry):
            text = f"when: {argument}: {entry.op} refuses {word!r}: {reason}"
            yield make_problem(text, entry, entries)
    counted = Statistics()
    with ExitStack() as installed:
        try:
            installed.enter_context(activation.installed(catalog, entries, counted))
        except CompositesError as error:
            yield make_problem(str(error), entry, entries)
            return
        except (Exception, SystemExit) as error:
            yield make_problem(
                f"cannot be turned on: {type(error).__name__}: {error}", entry, entries
            )
            return
        try:
            for text in _call(entry, counted.for_entry(entry)):
                yield make_problem(f"example: {text}", entry, entries)
        except LoweringError as error:
            yield make_problem(str(error), entry, entries)


def _missing(kernel: Kernel) -> Problem | str | None:
    """The problem of a kernel's function that does not exist. A missing module is only a remark:
    kernels for other platforms may need packages that this machine lacks."""
    location = kernel.location
    functions = [function.target for function in kernel.functions]
    for target in filter(None, (*functions, kernel.library)):
        try:
            import_module(target.partition(":")[0])
        except UnusableFunctionError as error:
            return f"{location}: {kernel.composite}: {target} was not checked: {error}"
        try:
            find_function(target)
        except UnusableFunctionError as error:
            return location.problem(f"kernels: {error}", kernel.composite)
    return None


def _unusable(files: Sequence[str | None], catalog: Catalog) -> Iterator[Problem]:
    """Alternatives of files whose functions do not exist or do not fit."""
    for entry, alternative in ((e, a) for e in catalog for a in e.alternatives):
        if alternative.location.file not in files:
            continue
        try:
            check_functions(alternative, entry)
        except DecompositionError as error:
            prefix = f"{alternative.location}: {entry.qualified}: "
            text = f"kernels: {str(error).removeprefix(prefix)}"
            yield alternative.location.problem(text, entry.name)
        except MissingPackageError:
            continue  # choosing the alternative reports this


def _call(entry: Composite, counted: EntryStatistics) -> Iterator[str]:
    """Call the entry's operator or function once, if an example call is easily made. Nothing is
    computed on the device. Yield the reason why a call that the file specifies is not an example.

    Raises:
        LoweringError: the decomposition failed.
    """
    if entry.op is None and not entry.functions:
        return
    is_adapted = is_adapted_function(entry)
    if is_adapted:
        # The arguments of the function are not those of the decomposition, which `example` has.
        entry = replace(entry, adapt=None, example=())
    elif entry.op is None and not entry.example and not entry.samples_by_name:
        return
    calls = example_calls(entry)
    if isinstance(calls, NoCalls):
        if entry.example and entry.op is not None:  # the package of a function may be missing
            yield calls.reason
        return
    call = calls[0]
    if entry.op is None and not call.specified and not is_adapted:
        return
    if entry.op is not None and call.specified and (refused := _refused(call)):
        yield refused
        return
    device = activation.backend().frontend.tensors.device_type
    try:
        call.run(lambda tensor: tensor.to(device))
    except LoweringError:
        raise
    except Exception:  # torch_xla may refuse a call that the CPU accepts; the entry is correct
        # A function need not take tensors of the CPU. The hooks leave them alone.
        if entry.op is None and (refused := _refused(call)):
            yield refused
        return
    if call.specified and not counted.caught:
        for fallback in counted.fallbacks.values():
            if not fallback.is_platform_specific:
                yield f"the entry does not claim the call: {fallback.reason}"


def _refused(call: ExampleCall) -> str:
    """The error of a call that fails on the CPU, where no entry takes it; empty if it succeeds."""
    try:
        with torch.random.fork_rng(devices=()):
            call.run(torch.clone)
    except (NotImplementedError, ImportError):  # an operator of other devices, a missing package
        return ""
    except Exception as error:
        return f"the call failed: {first_line(error)}"
    return ""


def make_problem(message: str, entry: Composite, entries: Iterable[Composite]) -> Problem:
    """Make a problem of the entry that the message begins with, or else of `entry`."""
    for named in entries:
        for start in (
            f"{named.qualified} ({named.location}): ",
            f"{named.location}: {named.qualified}: ",
        ):
            if message.startswith(start):
                entry, message = named, message.removeprefix(start)
    return entry.location.problem(message, entry.name)
