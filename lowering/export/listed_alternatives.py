"""The faster alternatives that registries list, as candidates for the calls of a program.

A function of JAX is lowered from the operands and attributes that a composite holds, without torch.
The operands of a derived backward are the gradients of results, then the values that the entry
saves. The conditions of an alternative are checked for the operands of the forward, so that it
takes the same calls forward and backward. Saved values are part of the composite's contract.
"""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from composites.contracts.model import OUTPUT_MASK
from composites.errors import UnsupportedCallError, UnusableFunctionError
from composites.functions import find_function
from composites.registry.conditions import names_in
from composites.registry.listed_kernels import ListedKernel, fast_kernels
from composites.registry.model import Decomposition, Tensor
from composites.registry.selection import DescribedCall, comparable
from lowering.stablehlo.candidates import Candidate
from lowering.stablehlo.composites import Signature
from lowering.stablehlo.dtypes import shape_and_element_type, static_tensor
from lowering.stablehlo.kernels import Candidates

CPU = "cpu"
"""The platform of alternatives without `only_for`."""

GRADIENT = "grad_output"


class _Refused(Exception):
    """The reason why an alternative does not take a call."""


def listed_alternatives(platform: str) -> Candidates:
    """The alternatives that are faster than a call's decomposition, in the order of registries.

    Args:
        platform: the platform that runs the program: `cpu` or `cuda`.

    Raises:
        RegistryError: a registry file that the user has named is invalid.
    """
    target = "" if platform == CPU else platform
    suitable = [listed for listed in fast_kernels() if listed.kernel.suits(target)]

    def candidates(call: Signature) -> Sequence[Candidate]:
        by_key: dict[object, Candidate] = {}
        for listed in suitable:
            entry, kernel = listed.entry, listed.kernel
            derived = entry.derives and call.name == entry.backward_name
            if derived and kernel.backward is None and not kernel.derives:
                continue  # the entry has the backward
            if derived or call.name == entry.composite_name:
                # Entries that produce one composite have the same alternatives.
                key = entry.version, kernel.name, kernel.when
                by_key.setdefault(key, _candidate(listed, call, derived))
        return list(by_key.values())

    return candidates


def _candidate(listed: ListedKernel, call: Signature, derived: bool) -> Candidate:
    try:
        function = _function(listed, call, derived)
    except _Refused as refused:
        return Candidate(
            listed.name, refusal=str(refused), listed_as=listed.name, is_alternative=True
        )
    function.__name__ = listed.name  # the name in messages
    return Candidate(function, listed_as=listed.name, is_alternative=True)


def _function(listed: ListedKernel, call: Signature, derived: bool) -> Callable[..., Any]:
    """An alternative as a function of a composite's operands and attributes."""
    entry = listed.entry
    if call.version != entry.version:
        raise _Refused(f"is for version {entry.version}")
    kernel = listed.kernel
    decomposition = kernel.backward if derived else kernel.forward
    if decomposition is None:
        raise _Refused("its backward is derived" if derived else "it has only a backward")
    if decomposition.kind != "jax":
        raise _Refused(f"{decomposition} needs PyTorch, so it is chosen when a program is exported")
    held = {a.argument: a.name for a in entry.attributes if a.argument is not None}
    paths = [name for name in (*entry.operands, *held) if "." in name]
    if paths:
        raise _Refused(f"its entry reads {paths[0]}, which a composite does not hold")
    names = _operand_names(listed, held)
    _check_names(listed, held)
    attributes = call.python_attributes()
    arguments = {argument: attributes.get(name) for argument, name in held.items()}
    positions = _saved_positions(listed, names, call) if derived else _positions(names, call)
    bound = _BoundCall(listed, names, positions, arguments, call)
    bound.check_conditions()
    return bound.gradients() if derived else bound.results()


def _operand_names(listed: ListedKernel, held: Collection[str]) -> tuple[str, ...]:
    """The entry's operands, in the composite's order. Attributes hold the other arguments."""
    if listed.entry.operands:
        return listed.entry.operands
    kernel = listed.kernel
    if kernel.forward is not None:
        return tuple(n for n in _parameters(listed, kernel.forward) if n not in held)
    assert kernel.backward is not None
    results = [name for name in listed.saves or () if name.partition(".")[0] == "result"]
    between = {*map(_local, results), *dict(listed.entry.saved)}
    return tuple(
        name
        for name in _parameters(listed, kernel.backward)
        if name not in held
        and name != OUTPUT_MASK
        and not name.startswith(GRADIENT)
        and name not in between
    )


def _check_names(listed: ListedKernel, held: Collection[str]) -> None:
    """Check that the alternative's function has a parameter for each attribute. An exported program
    calls the function by position, so that names are free. A step passes attributes by name, and an
    argument that it cannot pass would keep its default."""
    decomposition = listed.kernel.forward
    if decomposition is None:
        return
    parameters = _parameters(listed, decomposition)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    lost = [argument for argument in held if argument not in parameters]
    if lost:
        raise _Refused(f"has no parameter {lost[0]}, and steps pass arguments by name")


def _imported(listed: ListedKernel, decomposition: Decomposition) -> Callable[..., Any]:
    assert decomposition.target is not None
    try:
        return find_function(decomposition.target)
    except UnusableFunctionError as error:
        where = f"{listed.kernel.location}: {listed.name}"
        raise UnusableFunctionError(f"{where}: {error}") from error


def _parameters(
    listed: ListedKernel, decomposition: Decomposition
) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(_imported(listed, decomposition)).parameters


def _local(name: str) -> str:
    """The parameter name of a saved value, such as `result_1` for `result.1`."""
    return name.replace(".", "_")


# ---- meanings of the composite's operands ----


def _positions(names: Sequence[str], call: Signature) -> dict[str, int]:
    """The positions of the operands that a call has. No operand follows an absent operand."""
    if len(call.operands) > len(names):
        raise _Refused(f"takes {', '.join(names)}, and not {len(call.operands)} operands")
    return {name: position for position, name in enumerate(names[: len(call.operands)])}


def _saved_positions(listed: ListedKernel, names: Sequence[str], call: Signature) -> dict[str, int]:
    """The positions of gradients and of saved values among the operands of a derived backward.

    A composite does not record which results have a gradient and which operands are absent. The
    types of the requested gradients determine this.
    """
    saves = names if listed.saves is None else listed.saves
    saved = [name for name in names if name in saves]
    results = sorted(name for name in saves if name not in names)
    behind = [*map(_local, results), *dict(listed.entry.saved)]
    with_gradient = _results_with_gradients(names, call)
    fitting = []
    for absent in range(len(saved) + 1):
        present = saved[: len(saved) - absent]
        count = len(call.operands) - len(present) - len(behind)
        gradients = [f"{GRADIENT}_{n}" if n else GRADIENT for n in range(count)]
        positions = {name: n for n, name in enumerate([*gradients, *present, *behind])}
        if count > 0 and all(
            name not in saved or (name in positions and call.operands[positions[name]] == result)
            for name, result in zip(with_gradient, call.results, strict=True)
        ):
            fitting.append(positions)
    if len(fitting) != 1:
        raise _Refused("the operands do not say which values were saved")
    return fitting[0]


def _results_with_gradients(names: Sequence[str], call: Signature) -> list[str]:
    """The operands of the forward whose gradients a call has as results."""
    mask = call.python_attributes().get(OUTPUT_MASK)
    if not isinstance(mask, tuple) or len(mask) != len(names) or sum(mask) != len(call.results):
        raise _Refused(f"takes an {OUTPUT_MASK} for {', '.join(names)}, not {mask}")
    return [name for name, asked in zip(names, mask, strict=True) if asked]


def tensor_operands(call: Signature) -> list[Tensor] | None:
    """The operands of a call for the check of conditions; None if the size of an operand varies."""
    types = [shape_and_element_type(type_) for type_ in call.operands]
    operands = [Tensor(type_[1], type_[0]) for type_ in types if type_ is not None]
    return operands if len(operands) == len(types) else None


@dataclass(frozen=True, slots=True)
class _BoundCall:
    """A call, bound to the arguments of an alternative's functions."""

    listed: ListedKernel
    names: Sequence[str]
    """The operands of the forward."""
    positions: Mapping[str, int]
    """The positions of values among the operands of the call."""
    arguments: Mapping[str, Any]
    """The arguments that attributes of the call hold, by name."""
    call: Signature

    def check_conditions(self) -> None:
        """Check the conditions of `when` for the operands of the forward."""
        listed, positions, names = self.listed, self.positions, self.names
        types = tensor_operands(self.call)
        if types is None:
            raise _Refused("takes static shapes only")
        saves = names if listed.saves is None else listed.saves
        operands: dict[str, Tensor | None] = {
            name: types[positions[name]] if name in positions else None
            for name in names
            if name in positions or name in saves
        }
        when = listed.kernel.when
        for text in when.where:
            if lost := sorted(names_in(text).difference(operands, self.arguments)):
                raise _Refused(f"needs {text}, and the composite does not hold {lost[0]}")
        present = [operand for operand in operands.values() if operand is not None]
        absent = {name: None for name, _ in when.values}
        attributes = comparable(dict(self.arguments))
        described = DescribedCall(present, {**absent, **attributes, **operands})
        unmet = described.unmet(when, f"{listed.kernel.location}: {listed.name}")
        if unmet is not None:
            raise _Refused(unmet)

    def results(self) -> Callable[..., Any]:
        """A function of the call's operands that computes the results of a forward, followed by the
        values that the entry saves."""
        entry, call = self.listed.entry, self.call
        assert self.listed.kernel.forward is not None
        function = _imported(self.listed, self.listed.kernel.forward)
        bind_operands = _passed(function, self.arguments, self.positions, self.names)

        def results(*operands: Any, **_: Any) -> list[Any]:
            flat = _flat(function(**bind_operands(operands)))
            split = len(flat) - len(entry.saved) if entry.derives else len(flat)
            exposed = entry.exposed(flat) if entry.results else flat[:split]
            return _typed([*exposed, *flat[split:]][: len(call.results)], call)

        return results

    def gradients(self) -> Callable[..., Any]:
        """A function of the call's operands that computes the gradients of a derived backward."""
        listed, kernel = self.listed, self.listed.kernel
        assert kernel.backward is not None
        function = _imported(listed, kernel.backward)
        with_gradient = _results_with_gradients(self.names, self.call)
        unknown = [name for name in with_gradient if name not in kernel.gradients]
        if unknown:
            raise _Refused(f"it has no gradient of {', '.join(unknown)}")
        mask = tuple(name in with_gradient for name in kernel.gradients)
        saved = [name for name in self.names if listed.saves is None or name in listed.saves]
        values = {**self.arguments, OUTPUT_MASK: mask}
        bind_operands = _passed(function, values, self.positions, saved)

        def gradients(*operands: Any, **_: Any) -> list[Any]:
            returned = _flat(function(**bind_operands(operands)))
            if len(returned) != len(kernel.gradients):
                raise TypeError(
                    f"it returns {len(returned)} gradients; return {len(kernel.gradients)}, of"
                    f" {', '.join(kernel.gradients)}"
                )
            by_name = dict(zip(kernel.gradients, returned, strict=True))
            return _typed([by_name[name] for name in with_gradient], self.call)

        return gradients


def _passed(
    function: Callable[..., Any],
    values: Mapping[str, Any],
    positions: Mapping[str, int],
    names: Sequence[str],
) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """A function from the call's operands to the arguments of `function`, by parameter name.

    Args:
        values: the values of arguments that are not operands.
        positions: the positions of the operands that the call has.
        names: all operands. An absent operand is None if the parameter's annotation allows None.
    """
    parameters = inspect.signature(function).parameters
    constants: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if name in values:
            constants[name] = values[name]
        elif name not in positions and parameter.default is parameter.empty:
            written = str(parameter.annotation)
            if name not in names or not ("None" in written or "Optional" in written):
                raise _Refused(f"takes {name}, which the composite does not hold")
            constants[name] = None
    passed = {name: position for name, position in positions.items() if name in parameters}

    def bind_operands(operands: Sequence[Any]) -> dict[str, Any]:
        return constants | {name: operands[position] for name, position in passed.items()}

    return bind_operands


def _flat(returned: Any) -> list[Any]:
    return list(returned) if isinstance(returned, list | tuple) else [returned]


def _typed(results: list[Any], call: Signature) -> list[Any]:
    """Check that results have the call's types. Under autocast, a decomposition may return others.

    Raises:
        UnsupportedCallError: results have other types.
    """
    if all(hasattr(result, "dtype") for result in results):  # otherwise `bind` reports the problem
        types = [(tuple(result.shape), result.dtype) for result in results]
        if types != [static_tensor(type_) for type_ in call.results]:
            text = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in types)
            raise UnsupportedCallError(f"gives {text}, not {', '.join(call.results)}")
    return results
