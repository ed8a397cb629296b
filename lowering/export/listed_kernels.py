"""The kernels that registries list, as candidates for the calls of a program."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import SimpleNamespace
from typing import Any

from composites.element_types import PYTORCH_NAMES
from composites.errors import LoweringError, ProgramError, did_you_mean
from composites.functions import find_function
from composites.registry.conditions import ConditionError
from composites.registry.kernels import all_listed, compile_where
from composites.registry.model import ListedKernel
from lowering.stablehlo import Module, register_targets
from lowering.stablehlo.composites import Signature
from lowering.stablehlo.dtypes import is_float, shape_and_element_type
from lowering.stablehlo.kernels import NOT_LISTED, Candidate, Candidates, Kernel, distinct

_TYPES = SimpleNamespace(**{name: name for name in PYTORCH_NAMES.values()})
"""In place of torch in conditions: types are their names."""


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand of a call, as conditions see it."""

    shape: tuple[int, ...]
    element_type: str

    @property
    def dtype(self) -> str:
        return PYTORCH_NAMES.get(self.element_type, self.element_type)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return math.prod(self.shape)

    def is_floating_point(self) -> bool:
        return is_float(self.element_type)


def listed_kernels(module: Module, platform: str, names: Sequence[str] | None = None) -> Candidates:
    """The kernels that registries list for a platform, the one with the highest priority first.

    Args:
        module: the program.
        platform: the platform that it is compiled for.
        names: composites whose kernels are taken (`acme.gelu`, `acme.*`); by default, all.

    Raises:
        RegistryError: a registry file that the user has named is wrong.
        ProgramError: no kernel is listed for a name.
        UnusableFunctionError: a kernel's function or library cannot be imported.
        RunError: a library cannot be loaded, or lacks the target.
    """
    listed = [kernel for kernel in all_listed() if kernel.platform == platform]
    listed.sort(key=lambda kernel: -kernel.priority)  # a stable sort: files in their order
    called = {call.name for call in distinct(module)}
    for name in names or ():
        known = sorted({kernel.composite for kernel in listed} & called)
        if not any(fnmatchcase(composite, name) for composite in known):
            raise ProgramError(
                f"{NOT_LISTED} for {platform} that is for {name!r}{did_you_mean(name, known)}; of"
                f" this program's composites, {', '.join(known) or 'none'} have one. A mapping"
                " gives kernels that no registry lists"
            )
    loaded: dict[ListedKernel, Kernel] = {}

    def candidates(call: Signature) -> Sequence[Candidate]:
        found = [
            kernel
            for kernel in listed
            if kernel.composite == call.name
            and (names is None or any(fnmatchcase(call.name, name) for name in names))
        ]
        return [_candidate(kernel, call, loaded) for kernel in found]

    return candidates


def _candidate(
    kernel: ListedKernel, call: Signature, loaded: dict[ListedKernel, Kernel]
) -> Candidate:
    refusal = _refusal(kernel, call)
    if refusal is not None:  # what it needs may not be installed
        return Candidate(kernel.name, refusal=refusal, listed_as=kernel.name)
    if kernel not in loaded:
        loaded[kernel] = _load(kernel)
    return Candidate(loaded[kernel], kernel.ignores, listed_as=kernel.name)


def _load(kernel: ListedKernel) -> Kernel:
    if kernel.function is not None:
        function: Callable[..., Any] = find_function(kernel.function)
        return function
    assert kernel.target is not None
    if kernel.library is not None:
        library = find_function(kernel.library)()
        register_targets([kernel.target], [library], platform=kernel.platform)
    return kernel.target


def _refusal(kernel: ListedKernel, call: Signature) -> str | None:
    """Why a kernel does not take a call; None if it does."""
    if kernel.version not in (None, call.version):
        return f"is for version {kernel.version}"
    attributes = call.python_attributes()
    for name, allowed in kernel.when.values:
        if not any(_same(attributes.get(name), value) for value in allowed):
            return f"takes {name} = {_either(allowed)}, not {attributes.get(name)!r}"
    types = [shape_and_element_type(type_) for type_ in call.operands]
    operands = [_Operand(*type_) for type_ in types if type_ is not None]
    if len(operands) < len(types):
        return "takes static shapes only"
    for operand in operands:
        if kernel.when.dtypes and operand.element_type not in kernel.when.dtypes:
            return f"takes operands of {_either(kernel.when.dtypes)}, not {operand.element_type}"
    if kernel.when.ranks and (not operands or operands[0].ndim not in kernel.when.ranks):
        return f"takes rank {_either(kernel.when.ranks)}"
    names = dict(zip(kernel.operands, operands, strict=False))
    for text in kernel.when.where:
        if not _holds(kernel, text, names, attributes):
            return f"needs {text}"
    return None


def _same(found: Any, allowed: Any) -> bool:
    """Whether an attribute has a value of the file. Floats are attributes of 32 bits."""
    if isinstance(found, float) and isinstance(allowed, int | float):
        import numpy as np

        return bool(np.float32(found) == np.float32(allowed))
    return bool(found == allowed) and isinstance(found, bool) == isinstance(allowed, bool)


def _holds(
    kernel: ListedKernel, text: str, operands: Mapping[str, Any], attributes: Mapping[str, Any]
) -> bool:
    where = f"{kernel.location}: {kernel.composite}: {text!r}"
    try:
        written = compile_where(kernel, text, list(attributes))
        # `compile_condition` lets nothing through that could do more than compute.
        given = {**attributes, **operands, "torch": _TYPES, "len": len}
        return bool(eval(written, {"__builtins__": {}}, given))
    except ConditionError as error:
        raise LoweringError(f"{where}: {error}") from error
    except Exception as error:
        raise LoweringError(f"{where} failed: {type(error).__name__}: {error}") from error


def _either(values: Sequence[Any]) -> str:
    return " or ".join(value if isinstance(value, str) else repr(value) for value in values)
