"""The backward of a call: its saved values, operands and results.

PyTorch's autograd (`lowering.dispatch.autograd`) and JAX programs (`lowering.jax_entries`) make
composites of backwards. Values are tensors or arrays, like those of the decomposition.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from composites.errors import LoweringError
from composites.functions import find_function
from composites.intermediates import Named, handled
from composites.registry.model import Composite
from lowering.codegen.paths import local
from lowering.dispatch.call import CallSpec, regrouped


def result_name(number: int, separator: str = "_") -> str:
    """`result`, `result.1`, …: the names of a forward's results in `saves`."""
    return f"result{separator}{number}" if number else "result"


def names_of_values(spec: CallSpec, results: int) -> list[str]:
    """The operands of a forward, its results, and its further results, by their names in
    `saves`."""
    saved = (name for name, _ in spec.form.entry.saved)
    return [*spec.names(), *(result_name(n, ".") for n in range(results)), *saved]


def taken_by_derived(spec: CallSpec, results: int) -> tuple[int, ...]:
    """Positions, in `names_of_values`, of the values that a derived backward takes: the values that
    `saves` lists, or all operands."""
    entry = spec.form.entry
    saves = entry.operands if entry.saves is None else entry.saves
    return tuple(n for n, name in enumerate(names_of_values(spec, results)) if name in saves)


def further_values(spec: CallSpec, operands: Sequence[Any], named: Sequence[Named]) -> list[Any]:
    """The further results of the forward, in the order of the entry's `saved`.

    Args:
        named: the values that the decomposition named for `operands`.

    Raises:
        LoweringError: the decomposition did not name a value that the entry lists, gave the name
            to two values, or wrote to the value later.
    """
    entry = spec.form.entry
    return [
        _intermediate(entry, name, named)
        if target is None
        else spec.call(find_function(target), *operands)
        for name, target in entry.saved
    ]


def _intermediate(entry: Composite, name: str, named: Sequence[Named]) -> Any:
    matches = [value for value in named if value.name == name]
    if len(matches) == 1 and not matches[0].is_written_to:
        return matches[0].value
    if len(matches) > 1:
        problem = f"it gives this name to {len(matches)} values; give each a name of its own"
    elif matches:
        problem = "it writes to this value later; name a copy, as value.clone()"
    else:
        names = ", ".join(dict.fromkeys(value.name for value in named)) or "none"
        problem = (
            f"it names no such value (it names {names}); call"
            f" composites.intermediate(value, {name!r}) in it"
        )
    function = entry.decomposition.target or next(iter(entry.functions), entry.decomposition)
    raise LoweringError(
        f"{entry.location}: {entry.qualified}: intermediates: {name!r} of {function}: {problem}"
    )


def gradients_by_name(spec: CallSpec, returned: Any, backward: Composite) -> dict[str, Any]:
    """The gradients that an explicit backward returns, by the names of operands. A single gradient
    is a list if its operand is a list."""
    listed, groups = backward.gradients, spec.groups
    is_one_list = (
        len(listed) == 1
        and groups is not None
        and groups[spec.form.entry.operands.index(listed[0])] is not None
    )
    is_one = is_one_list or not isinstance(returned, list | tuple)
    return dict(zip(listed, (returned,) if is_one else returned, strict=True))


def gradients_by_operand(
    spec: CallSpec, gradients: Mapping[str, Any], backward: Composite
) -> list[Any]:
    """The gradients that an explicit backward returns by name, in the order of the operands: None
    for an operand without a gradient, and a list for a list.

    Args:
        backward: the entry of the backward, for messages.

    Raises:
        LoweringError: the backward returns something else for a list.
    """
    flat: list[Any] = []
    names = spec.form.entry.operands
    for name, group in zip(names, spec.groups or (None,) * len(names), strict=True):
        gradient = gradients.get(name)
        if group is None:
            flat.append(gradient)
        elif gradient is None:
            flat.extend([None] * group[1])
        elif isinstance(gradient, list | tuple) and len(gradient) == group[1]:
            flat.extend(gradient)
        else:
            count = f"{len(gradient)}" if isinstance(gradient, list | tuple) else "one tensor"
            raise LoweringError(
                f"{backward.location}: {backward.qualified}: {name} is a list of {group[1]}"
                f" tensors, and {backward.decomposition} returns {count} for it; return a list with"
                " a gradient for each"
            )
    return flat


@dataclass(frozen=True, slots=True)
class BackwardSpec:
    """A derived backward. Its operands are gradients of the forward's results, then saved values;
    its results are gradients of the forward's operands."""

    spec: CallSpec
    """The forward, without tensors."""
    types: Sequence[Any | None]
    """The types of the forward's operands; None for an absent operand."""
    present: tuple[bool, ...]
    """For each result of the forward, True if the backward takes a gradient of it."""
    needed: tuple[bool, ...]
    """For each operand of the forward, True if the backward returns its gradient."""
    taken: tuple[int, ...]
    """See `taken_by_derived`. Only the types of the other operands matter."""

    @property
    def unsaved(self) -> list[int]:
        """The operands of the forward, by number, that are present and not saved."""
        numbers = enumerate(self.types)
        return [n for n, type_ in numbers if type_ is not None and n not in self.taken]

    def split(self, values: Sequence[Any]) -> tuple[list[Any], dict[int, Any]]:
        """The gradients among the backward's operands, with None for a result without a gradient,
        and the saved values by position."""
        rest = iter(values)
        grads = [next(rest) if is_there else None for is_there in self.present]
        return grads, dict(zip(self.taken, rest, strict=True))

    def saved_results(self, values: Sequence[Any]) -> dict[int, Any]:
        """The saved results of the forward among the backward's operands, by their number."""
        first = len(self.types)
        last = first + len(self.present)
        _, saved = self.split(values)
        return {n - first: value for n, value in saved.items() if first <= n < last}

    def pull(
        self,
        run: Callable[..., Any],
        values: Sequence[Any],
        blank: Callable[[Any], Any],
        framework: Any,
        *,
        replaces: bool = True,
    ) -> list[Any]:
        """The requested gradients of a function of the forward's operands.

        Args:
            values: the backward's operands.
            blank: makes a value of a type, for an operand that was not saved.
            framework: a module with `pull_gradients` and `replacement`, for tensors or arrays.
            replaces: True if the function continues with intermediate values that were saved.
        """
        grads, saved = self.split(values)
        inputs = [
            saved[n] if n in saved else None if type_ is None else blank(type_)
            for n, type_ in enumerate(self.types)
        ]
        first = len(self.types) + len(self.present)
        intermediates = {
            name: saved[n]
            for n, (name, target) in enumerate(self.spec.form.entry.saved, first)
            if target is None and n in saved and replaces
        }
        with handled(framework.replacement(intermediates) if replaces else None):
            gradients = framework.pull_gradients(run, inputs, self.needed, grads)
        return [gradient for gradient in gradients if gradient is not None]

    def named(self, saved: Mapping[int, Any], grads: Sequence[Any]) -> dict[str, Any]:
        """The values that an explicit backward can take, by the names of its parameters.

        Args:
            saved: saved values by position; see `names_of_values`.
            grads: for each result of the forward, its gradient; None for an absent gradient.
        """
        spec, entry, count = self.spec, self.spec.form.entry, len(self.types)
        operands = [saved.get(n) for n in range(count)]
        grouped = operands if spec.groups is None else regrouped(operands, spec.groups)
        first = count + len(self.present)
        return {
            **spec.arguments,
            **{local(name): value for name, value in zip(entry.operands, grouped, strict=True)},
            **{result_name(n): saved.get(count + n) for n in range(len(self.present))},
            **{name: saved[n] for n, (name, _) in enumerate(entry.saved, first) if n in saved},
            **{f"grad_output_{n}" if n else "grad_output": grad for n, grad in enumerate(grads)},
        }

    def refuse_unsaved(self, is_read: Iterable[bool]) -> None:
        """Check that the gradients depend on the value of no operand that was not saved.

        Args:
            is_read: for each of `unsaved`, True if the gradients depend on its value.

        Raises:
            LoweringError: they depend on such a value, and would be wrong.
        """
        names = self.spec.names()
        numbers = zip(self.unsaved, is_read, strict=True)
        lost = dict.fromkeys(names[number] for number, read in numbers if read)
        if lost:
            entry = self.spec.form.entry
            raise LoweringError(
                f"{entry.location}: {entry.qualified}: the backward reads {', '.join(lost)}, which"
                " `saves` leaves out; add it to `saves`"
            )
