"""Alternatives to the decomposition of an entry, checked against the entry.

`validation` checks the alternatives of a file's own entries. `catalog` adds the alternatives that a
file has for entries of other registries. Functions of an alternative are imported only when it is
chosen, because JAX takes a second to import and need not be installed.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from composites.contracts.model import OUTPUT_MASK
from composites.errors import DecompositionError, UnusableFunctionError, did_you_mean
from composites.functions import find_function
from composites.registry.mistakes import Mistake, mistakes_of_when
from composites.registry.model import AUTOMATIC, GOALS, Composite, Decomposition, Kernel
from composites.registry.signatures import callee_of, check_signature


def mistakes_in(
    alternative: Kernel,
    entry: Composite,
    existing: Sequence[Kernel] = (),
    *,
    is_added: bool = False,
) -> Iterator[Mistake]:
    """Yield the mistakes of an alternative that does not fit its entry, with their keys in the
    file. The functions of the alternative are not imported.

    Args:
        existing: the other alternatives of the entry.
        is_added: True if the alternative comes from another registry than the entry.
    """
    first = next((a for a in existing if a.name == alternative.name), None)
    if first is not None:
        text = f"{entry.qualified} already has a kernel {first.name!r}: {first.location}"
        yield Mistake(f"{text}; choose another name", ())
    goal = next((goal for goal in alternative.goals if goal in AUTOMATIC), "")
    if alternative.is_automatic and is_added:
        yield Mistake(
            f"goals: {goal} is only for the registry of {entry.qualified}, because users cannot"
            f" choose such a kernel; write {' or '.join(GOALS)}",
            ("goals",),
        )
    for key in _consumer_keys(alternative):
        if not alternative.goals:
            yield Mistake(
                f"{key}: restricts goals, and this kernel has none; write goals"
                f" ({', '.join(GOALS)}), or remove {key}",
                (key,),
            )
    if alternative.is_automatic:
        yield from _mistakes_of_automatic(alternative, goal)
    yield from mistakes_of_when(alternative.when, callee_of(entry), did_you_mean)
    if (alternative.backward is not None or alternative.derives) and not entry.derives:
        yield Mistake(
            f"backward: {entry.qualified} has no derived backward"
            + (
                f"; write a kernel of {entry.backward}, which is its backward"
                if entry.backward
                else ""
            ),
            ("backward",),
        )
    for name in alternative.gradients:
        if name not in entry.operands:
            yield Mistake(
                f"gradients: {entry.qualified} has no operand {name!r}"
                f"{did_you_mean(name, entry.operands)} (it has {', '.join(entry.operands)})",
                ("gradients",),
            )


def _consumer_keys(alternative: Kernel) -> list[str]:
    return [key for key in ("not_for", "only_for") if getattr(alternative, key)]


def _mistakes_of_automatic(alternative: Kernel, goal: str) -> Iterator[Mistake]:
    if len(alternative.goals) > 1:
        yield Mistake(
            f"goals: {goal} must be the only goal, because such a kernel takes calls whatever"
            " users choose; remove the others",
            ("goals",),
        )
    for key in _consumer_keys(alternative):
        yield Mistake(
            f"{key}: a kernel for {goal} takes calls for all consumers; remove {key}",
            (key,),
        )
    for key in ("tolerance", "samples"):
        if getattr(alternative, key):
            yield Mistake(
                f"{key}: a kernel for {goal} is verified as the entry itself, with the entry's"
                f" samples; remove {key}",
                (key,),
            )


def check_functions(alternative: Kernel, entry: Composite) -> None:
    """Import the functions of an alternative, and check that they fit the entry.

    Raises:
        DecompositionError: a function does not exist, or takes other arguments.
    """
    where = f"{alternative.location}: {entry.qualified}: {alternative.name}"
    try:
        if alternative.forward is not None:
            target = alternative.forward.target
            assert target is not None
            function, callee = find_function(target), callee_of(entry)
            if callee is not None:
                check_signature(function, target, callee)
        if alternative.backward is not None:
            _check_backward(alternative.backward, entry)
    except UnusableFunctionError as error:
        raise DecompositionError(f"{where}: {error}") from error


def _check_backward(backward: Decomposition, entry: Composite) -> None:
    target = backward.target
    assert target is not None
    parameters = backward_parameters(find_function(target), target)
    kept = entry.operands if entry.saves is None else entry.saves
    lost = [name for name in entry.operands if name not in kept]
    for name in parameters:
        if name in [operand.replace(".", "_") for operand in lost]:
            raise UnusableFunctionError(
                f"{target} takes {name}, which {entry.qualified} does not save for its backward"
                f" (it saves {', '.join(kept)})"
            )
    callee = callee_of(entry)
    if callee is None:
        return
    results = [name for name in kept if name == "result" or name.startswith("result.")]
    names = [
        *(operand.replace(".", "_") for operand in kept if operand in entry.operands),
        *(name.replace(".", "_") for name in results),
        *(name for name, _ in entry.saved),
        *(a.name for a in callee.arguments if a.name not in entry.operands),
        OUTPUT_MASK,
    ]
    for name in parameters:
        if name not in names and not name.startswith("grad_output"):
            raise UnusableFunctionError(
                f"{target} takes {name}, and the backward of {entry.qualified} has no value of"
                f" that name{did_you_mean(name, names)} (it has grad_output, {', '.join(names)})"
            )


def backward_parameters(function: Callable[..., Any], target: str) -> tuple[str, ...]:
    """Return the names of the values that a backward takes.

    Raises:
        UnusableFunctionError: the backward takes values without names.
    """
    parameters = inspect.signature(function).parameters
    for parameter in parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise UnusableFunctionError(
                f"{target} takes {parameter}; a backward takes its values by name, such as"
                " grad_output"
            )
    return tuple(parameters)
