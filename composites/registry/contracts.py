"""The contracts of a registry, as far as the file and PyTorch's schemas determine them."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from composites.attribute_types import SEGMENT_SIZES
from composites.contracts.model import (
    GRADIENTS,
    OUTPUT_MASK,
    AttributeSpec,
    Conditions,
    Contract,
    Operand,
)
from composites.errors import Problem, RegistryError, UnusableFunctionError, did_you_mean
from composites.registry.kernels import kernel_problems
from composites.registry.model import KERNEL_PLATFORMS, Composite, Kernel, Registry
from composites.registry.operand_lists import has_segment_sizes, is_list
from composites.registry.operators import Operator
from composites.registry.signatures import callee_of, describe_target


def contracts(registry: Registry) -> Iterator[Contract]:
    """Yield the contract of each entry and of each derived backward."""
    for entry in registry.composites:
        yield forward_contract(entry)
        if entry.derives:
            yield backward_contract(entry)


def forward_contract(entry: Composite) -> Contract:
    """Return the contract of the composite that an entry produces."""
    callee = _callee(entry)
    annotated = callee or _function(entry)
    return Contract(
        entry=entry.qualified,
        composite=entry.composite_name,
        version=entry.version,
        operator=entry.op,
        functions=entry.functions,
        operands=tuple(_operand(name, callee, annotated) for name in entry.operands),
        attributes=tuple(_attributes(entry, annotated)),
        results=_results(entry, callee),
        saved=tuple(name for name, _ in entry.saved),
        when=_conditions(entry),
        decomposition=str(entry.decomposition),
    )


def backward_contract(entry: Composite) -> Contract:
    """Return the contract of the backward that is derived from an entry."""
    saved = entry.operands if entry.saves is None else entry.saves
    operands = {o.name: o for o in forward_contract(entry).operands}
    mask = AttributeSpec(OUTPUT_MASK, "bool[]", argument=OUTPUT_MASK)
    return Contract(
        entry=entry.qualified,
        composite=entry.backward_name,
        version=entry.version,
        operands=(Operand(GRADIENTS), *(operands.get(name, Operand(name)) for name in saved)),
        attributes=(*_attributes(entry, _callee(entry) or _function(entry)), mask),
        # A list has one gradient for each of its tensors.
        results=None if any(o.variadic for o in operands.values()) else entry.operands,
        when=_conditions(entry),
        decomposition=f"gradient of {entry.decomposition}",
    )


def _callee(entry: Composite) -> Operator | None:
    """Return the signature whose arguments include the composite's operands; None for a Python
    function without a decomposition in PyTorch."""
    if entry.op is None and entry.adapt is None and entry.decomposition.kind == "torch":
        return describe_target(entry.decomposition.target)
    return callee_of(entry)


def _function(entry: Composite) -> Operator | None:
    """Describe the first Python function of an entry, whose annotations show lists of tensors."""
    try:
        return describe_target(next(iter(entry.functions), None))
    except UnusableFunctionError:
        return None


def _operand(name: str, callee: Operator | None, annotated: Operator | None) -> Operand:
    argument = callee.argument(name) if callee else None
    optional = argument is not None and argument.optional
    return Operand(name, optional, variadic=is_list(name, annotated))


def _attributes(entry: Composite, callee: Operator | None) -> Iterator[AttributeSpec]:
    yield from entry.attributes
    if has_segment_sizes(entry, callee):
        yield AttributeSpec(SEGMENT_SIZES, "i64[]", argument=SEGMENT_SIZES)


def _results(entry: Composite, callee: Operator | None) -> tuple[str, ...] | None:
    if entry.gradients:
        lists = callee is not None and any(a.is_list for a in callee.arguments)
        return None if lists else entry.gradients
    if callee is None or not callee.results or callee.returns_list:
        return None
    names = tuple(f"result.{n}" if n else "result" for n in range(len(callee.results)))
    return tuple(names[number] for number in entry.results) if entry.results else names


def _conditions(entry: Composite) -> Conditions:
    when = entry.when
    return Conditions(dict(when.values), when.dtypes, when.ranks, when.where)


def check_kernels_for_others(
    named: Iterable[Registry], registries: Sequence[Registry]
) -> list[str]:
    """Check the kernels that registries list for composites of other registries. Return warnings.

    Only `composites check` calls this. Users of a file may lack the other registries, or have other
    versions of them.

    Raises:
        RegistryError: a kernel does not fit its composite.
    """
    warnings = [text for registry in named for text in _misspelled_platforms(registry)]
    problems: list[Problem] = []
    entries = [entry for other in registries for entry in other.composites]
    namespaces = tuple(f"{other.namespace}." for other in registries)
    for kernel in (kernel for registry in named for kernel in registry.kernels):
        if kernel.platform is None or not kernel.composite.startswith(namespaces):
            continue
        message = f"{kernel.location}: kernels: no entry makes"
        producing = [entry for entry in entries if kernel.composite in entry.produced]
        meant = [entry for entry in producing if kernel.version in (None, entry.version)]
        if meant:
            attributes = (a.name for entry in meant for a in _contract(entry, kernel).attributes)
            problems += kernel_problems(kernel, kernel.composite, list(dict.fromkeys(attributes)))
        elif producing:
            has = ", ".join(map(str, sorted({entry.version for entry in producing})))
            warnings.append(
                f"{message} version {kernel.version} of {kernel.composite} (it has {has})"
            )
        else:
            names = [name for entry in entries for name in entry.produced]
            warnings.append(f"{message} {kernel.composite}{did_you_mean(kernel.composite, names)}")
    if problems:
        raise RegistryError(problems)
    return warnings


def _misspelled_platforms(registry: Registry) -> Iterator[str]:
    """Yield warnings about platforms of kernels whose names resemble those of jax."""
    for kernel in registry.platform_kernels:
        platform = str(kernel.platform)
        if platform not in KERNEL_PLATFORMS:
            for name in get_close_matches(platform, KERNEL_PLATFORMS, n=1, cutoff=0.7):
                message = f"{platform!r} names a PJRT plug-in; did you mean {name!r}?"
                yield f"{kernel.location}: kernels: {message}"


def _contract(entry: Composite, kernel: Kernel) -> Contract:
    """Return the contract of the composite of an entry that a kernel computes."""
    is_forward = kernel.composite == entry.composite_name
    return forward_contract(entry) if is_forward else backward_contract(entry)
