"""The kernels that registries list, as candidates for the calls of a program."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from composites.errors import ProgramError, did_you_mean
from composites.functions import find_function
from composites.registry import model
from composites.registry.conditions import names_in
from composites.registry.listed_kernels import all_listed, listed_in
from composites.registry.selection import DescribedCall, comparable
from lowering.export.listed_alternatives import listed_alternatives, tensor_operands
from lowering.stablehlo import Module, register_targets
from lowering.stablehlo.candidates import Candidate, Kernel
from lowering.stablehlo.composites import Signature
from lowering.stablehlo.kernels import NOT_LISTED, Candidates, distinct


def listed_kernels(
    module: Module,
    platform: str,
    names: Sequence[str] | None = None,
    file: Path | None = None,
) -> Candidates:
    """The kernels that registries list for a platform, by descending priority.

    Args:
        module: the program.
        platform: the platform that the program is compiled for.
        names: the composites to take kernels for (`acme.gelu`, `acme.*`); by default, all.
        file: a registry file, to take only its kernels.

    Raises:
        RegistryError: a registry file that the user has named is invalid.
        ProgramError: no kernel is listed for a name, or the file lists none for the program.
        UnusableFunctionError: a kernel's function or library cannot be imported.
        RunError: a library cannot be loaded, or lacks the target.
    """
    everywhere = all_listed() if file is None else listed_in(file)
    listed = [kernel for kernel in everywhere if kernel.platform == platform]
    listed.sort(key=lambda kernel: -kernel.priority)  # a stable sort keeps the order of files
    called = {call.name for call in distinct(module)}
    if file is not None and called.isdisjoint(kernel.composite for kernel in listed):
        has = ", ".join(sorted({kernel.composite for kernel in listed})) or "none"
        raise ProgramError(
            f"{file} lists no kernel on {platform} for composites of the program; it"
            f" lists kernels for {has}, and the program has {', '.join(sorted(called)) or 'none'}"
        )
    for name in names or ():
        having = sorted({kernel.composite for kernel in listed} & called)
        if not any(fnmatchcase(composite, name) for composite in having):
            raise ProgramError(
                f"{NOT_LISTED} on {platform} for {name!r}{did_you_mean(name, having)}; of"
                f" this program's composites, {', '.join(having) or 'none'} have one. A mapping"
                " gives kernels that no registry lists"
            )
    loaded: dict[model.Kernel, Kernel] = {}

    def candidates(call: Signature) -> Sequence[Candidate]:
        matching = [
            kernel
            for kernel in listed
            if kernel.composite == call.name
            and (names is None or any(fnmatchcase(call.name, name) for name in names))
        ]
        return [_candidate(kernel, call, loaded) for kernel in matching]

    return candidates


def with_alternatives(kernels: Candidates, platform: str) -> Candidates:
    """The kernels for a call, and the alternatives to its decomposition that are faster on the
    platform. Kernels with a negative priority are tried after the alternatives."""
    alternatives = listed_alternatives(platform)

    def candidates(call: Signature) -> Sequence[Candidate]:
        listed = kernels(call)
        first = [candidate for candidate in listed if candidate.priority >= 0]
        last = [candidate for candidate in listed if candidate.priority < 0]
        return [*first, *alternatives(call), *last]

    return candidates


def _candidate(
    kernel: model.Kernel, call: Signature, loaded: dict[model.Kernel, Kernel]
) -> Candidate:
    candidate = partial(Candidate, listed_as=kernel.name, priority=kernel.priority)
    refusal = _refusal(kernel, call)
    if refusal is not None:  # the packages of a refused kernel may be missing
        return candidate(kernel.name, refusal=refusal)
    if kernel not in loaded:
        loaded[kernel] = _load(kernel)
    return candidate(loaded[kernel], kernel.ignores)


def _load(kernel: model.Kernel) -> Kernel:
    if not kernel.is_target:
        function: Callable[..., Any] = find_function(kernel.name)
        return function
    if kernel.library is not None:
        assert kernel.platform is not None
        library = find_function(kernel.library)()
        register_targets([kernel.name], [library], platform=kernel.platform)
    return kernel.name


def _refusal(kernel: model.Kernel, call: Signature) -> str | None:
    """The reason why a kernel does not take a call; None if it takes the call."""
    if kernel.version not in (None, call.version):
        return f"is for version {kernel.version}"
    operands = tensor_operands(call)
    if operands is None:
        return "takes static shapes only"
    when = kernel.when
    names = {*(name for name, _ in when.values), *chain(*map(names_in, when.where))}
    values = dict.fromkeys([*names, *kernel.operands]) | comparable(call.python_attributes())
    described = DescribedCall(operands, values | dict(zip(kernel.operands, operands, strict=False)))
    return described.unmet(when, f"{kernel.location}: {kernel.composite}")
