"""The backward of a call: its saved values, operands and results.

PyTorch's autograd (`lowering.dispatch.autograd`) and JAX programs (`lowering.jax_entries`) make
composites of it. Values are tensors or arrays here, as those of the decomposition.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from composites.errors import LoweringError
from composites.functions import find_function
from composites.intermediates import Named, handled
from composites.registry.model import Composite
from lowering.codegen.paths import local
from lowering.dispatch.call import CallSpec
from lowering.dispatch.operand_lists import regrouped


def result_name(number: int, separator: str = "_") -> str:
    """`result`, `result.1`, …: the names of a forward's results in `saves`."""
    return f"result{separator}{number}" if number else "result"


def names_of_values(spec: CallSpec, results: int) -> list[str]:
    """The operands of a forward, its results, and its further results, by their names in
    `saves`."""
    saved = (name for name, _ in spec.form.entry.saved)
    return [*spec.names(), *(result_name(n, ".") for n in range(results)), *saved]


def taken_by_derived(spec: CallSpec, results: int) -> tuple[int, ...]:
    """The values that a derived backward takes, as positions in `names_of_values`: those that
    `saves` lists, or all operands."""
    entry = spec.form.entry
    saves = entry.operands if entry.saves is None else entry.saves
    return tuple(n for n, name in enumerate(names_of_values(spec, results)) if name in saves)


def further_values(spec: CallSpec, operands: Sequence[Any], named: Sequence[Named]) -> list[Any]:
    """The further results of the forward, in the order of the entry's `saved`.

    Args:
        named: what the decomposition named for these operands.

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
    matches = [each for each in named if each.name == name]
    if len(matches) == 1 and not matches[0].is_written_to:
        return matches[0].value
    if len(matches) > 1:
        problem = f"it gives this name to {len(matches)} values; give each a name of its own"
    elif matches:
        problem = "it writes to this value later; name a copy, as value.clone()"
    else:
        others = ", ".join(dict.fromkeys(each.name for each in named)) or "none"
        problem = (
            f"it names no such value (it names {others}); call"
            f" composites.intermediate(value, {name!r}) in it"
        )
    function = entry.decomposition.target or next(iter(entry.functions), entry.decomposition)
    raise LoweringError(
        f"{entry.location}: {entry.qualified}: intermediates: {name!r} of {function}: {problem}"
    )


def named_values(
    spec: CallSpec,
    operands: Sequence[Any],
    results: Sequence[Any],
    further: Sequence[Any],
    grads: Sequence[Any],
) -> dict[str, Any]:
    """The values that an explicit backward can take, by the names of its parameters.

    Args:
        further: the forward's further results; empty if it was called without them.
    """
    entry = spec.form.entry
    grouped = operands if spec.groups is None else regrouped(operands, spec.groups)
    return {
        **spec.arguments,
        **{local(name): value for name, value in zip(entry.operands, grouped, strict=True)},
        **{result_name(n): value for n, value in enumerate(results)},
        **{name: value for (name, _), value in zip(entry.saved, further, strict=False)},
        **{f"grad_output_{n}" if n else "grad_output": grad for n, grad in enumerate(grads)},
    }


def gradients_by_name(spec: CallSpec, returned: Any, backward: Composite) -> dict[str, Any]:
    """The gradients that an explicit backward returns, by the names of operands. If it returns one
    gradient, that is a list where the operand is one."""
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
    """The gradient of each operand, of those that an explicit backward returns by name: lists for
    lists. None for an operand whose gradient it does not return.

    Args:
        backward: the entry of the backward, for messages.

    Raises:
        LoweringError: it returns something else for a list.
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
    """The types of the forward's operands; None for an absent one."""
    present: tuple[bool, ...]
    """For each result of the forward, whether the backward takes a gradient of it."""
    needed: tuple[bool, ...]
    """For each operand of the forward, whether the backward returns its gradient."""
    taken: tuple[int, ...]
    """See `taken_by_derived`. Of an operand that is not among them, only the type matters."""

    @property
    def unsaved(self) -> list[int]:
        """The operands of the forward, by number, that are present and not saved."""
        numbers = enumerate(self.types)
        return [n for n, type_ in numbers if type_ is not None and n not in self.taken]

    def split(self, values: Sequence[Any]) -> tuple[list[Any], dict[int, Any]]:
        """The gradients among the backward's operands, None where there is none, and the saved
        values by position."""
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
            framework: has `gradients_of` and `replacement`, of tensors or of arrays.
            replaces: whether the function continues with intermediate values that were saved.
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
            gradients = framework.gradients_of(run, inputs, self.needed, grads)
        return [gradient for gradient in gradients if gradient is not None]

    def named(self, values: Sequence[Any]) -> dict[str, Any]:
        """The backward's operands, and the call's arguments, by name."""
        grads, saved = self.split(values)
        return self.named_of(saved, grads)

    def named_of(self, saved: Mapping[int, Any], grads: Sequence[Any]) -> dict[str, Any]:
        """The values that an explicit backward can take, by name.

        Args:
            saved: by position; see `names_of_values`.
        """
        count = len(self.types)
        first = count + len(self.present)
        return named_values(
            self.spec,
            [saved.get(n) for n in range(count)],
            [saved.get(n) for n in range(count, first)],
            [saved.get(first + n) for n in range(len(self.spec.form.entry.saved))],
            grads,
        )

    def refuse_unsaved(self, is_read: Iterable[bool]) -> None:
        """Check that the gradients depend on the value of no operand that was not saved.

        Args:
            is_read: for each of `unsaved`, whether they do.

        Raises:
            LoweringError: they do, and would be wrong.
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
