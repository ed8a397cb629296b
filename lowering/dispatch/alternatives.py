"""Alternatives to an entry's decomposition: which one takes a call, and what it computes.

Nothing here runs for a call whose computation is in the cache. The arguments of a call, by name,
come from the `call` that its hook passes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from composites.contracts.model import OUTPUT_MASK
from composites.element_types import PYTORCH_NAMES
from composites.errors import LoweringError, did_you_mean
from composites.functions import find_function
from composites.registry.alternatives import backward_parameters, callee_of
from composites.registry.condition_types import ANY
from composites.registry.conditions import compile_condition
from composites.registry.model import STOCK, Alternative, Composite, Decomposition
from composites.registry.operators import Operator
from composites.registry.signatures import describe_function
from lowering.dispatch.decomposition import (
    Call,
    keeps_stock_bits,
    lower_function,
    lower_jax_function,
    require_tensors,
)
from lowering.dispatch.statistics import EntryStatistics, written_operands
from lowering.frontends.protocols import Frontend, TracedFunction

log = logging.getLogger("composites")


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The alternatives of one entry that were chosen."""

    entry: Composite
    chosen: tuple[Alternative, ...]
    native: Callable[..., Any]
    """The Python function that the entry catches, if it catches one."""
    statistics: EntryStatistics

    def taking(self, call: Call, operands: Sequence[Any], *, shared: bool) -> Iterator[Alternative]:
        """Those whose conditions hold for a call, in their order.

        Args:
            shared: whether several devices share the graph.

        Raises:
            LoweringError: a condition cannot be evaluated for the call.
        """
        chosen = [a for a in self.chosen if shared or not a.is_for_shared]
        if not chosen:
            return
        operator = self._signature()
        values = arguments_of(call, operands, operator)
        for alternative in chosen:
            unmet = _Conditions(self.entry, alternative, operator, values, operands).unmet()
            if unmet is None:
                yield alternative
            else:
                self.decline(alternative, unmet, operands)

    def decline(self, alternative: Alternative, reason: str, operands: Sequence[Any]) -> None:
        """Note that a call has another decomposition, and why."""
        if alternative.is_automatic:
            return  # nobody chose it
        if self.statistics.decline(alternative.name, reason):
            log.info(
                "%s=%s does not take %s: %s",
                self.entry.qualified, alternative.name, written_operands(operands), reason,
            )  # fmt: skip

    def take(self, alternative: Alternative | None, *, backward: bool = False) -> None:
        """Note which decomposition a computation has."""
        if all(other.is_automatic for other in self.chosen):
            return
        name = STOCK
        if alternative is not None and alternative.is_automatic:
            if backward:
                return  # as the derived backward of a call that has no alternative
        elif alternative is not None and (backward or alternative.decomposition):
            name = alternative.name
        name = f"{name}, backward" if backward else name
        taken = self.statistics.decompositions
        taken[name] = taken.get(name, 0) + 1

    def plain_arguments(self, call: Call, count: int) -> dict[str, Any]:
        """The arguments of a call that are not operands, by name. `count` is the number of
        operands."""
        found = arguments_of(call, [None] * count, self._signature())
        return {name: value for name, value in found.items() if name not in self.entry.operands}

    def _signature(self) -> Operator:
        operator = callee_of(self.entry)
        if operator is not None:
            return operator
        return describe_function(self.native, self.entry.functions[0])


def arguments_of(call: Call, operands: Sequence[Any], operator: Operator) -> dict[str, Any]:
    """The arguments of a call, by name."""
    names = [argument.name for argument in operator.arguments]

    def record(*positional: Any, **keywords: Any) -> dict[str, Any]:
        return dict(zip(names, positional, strict=False)) | keywords

    return call(record, *operands)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class _Conditions:
    """The conditions of an alternative, for one call."""

    entry: Composite
    alternative: Alternative
    operator: Operator
    values: Mapping[str, Any]
    operands: Sequence[Any]

    def unmet(self) -> str | None:
        """The first condition that the call does not meet; None if it meets all."""
        when = self.alternative.when
        for name, allowed in when.values:
            value = self._named(name)
            if value not in allowed:
                return f"{name} is {value!r}; it takes {' or '.join(map(repr, allowed))}"
        tensors = [t for t in self.operands if t is not None]
        if when.ranks and tensors and tensors[0].dim() not in when.ranks:
            wanted = " or ".join(map(str, when.ranks))
            return f"the rank of {self.entry.operands[0]} is not {wanted}"
        dtypes = {getattr(torch, PYTORCH_NAMES[name]) for name in when.dtypes}
        for tensor in tensors if dtypes else ():
            if tensor.dtype not in dtypes:
                return f"an operand is {str(tensor.dtype).removeprefix('torch.')}"
        return next((f"`where: {t}` does not hold" for t in when.where if not self._holds(t)), None)

    def _named(self, path: str) -> Any:
        """What a condition names. Of a Python function, nobody has checked that there is one."""
        root = path.partition(".")[0]
        if root not in self.values:
            known = list(self.values)
            hint = f"{did_you_mean(root, known)} (known: {', '.join(known)})"
            reason = f"there is no argument {root!r}{hint}"
            raise self._failed(path, reason)
        try:
            return self._value(path)
        except Exception as error:
            raise self._failed(path, f"{type(error).__name__}: {error}") from error

    def _value(self, path: str) -> Any:
        root, _, attribute = path.partition(".")
        return getattr(self.values[root], attribute) if attribute else self.values[root]

    def _holds(self, text: str) -> bool:
        paths = [name for name in self.entry.operands if "." in name]
        paths += [a.argument for a in self.entry.attributes if a.argument and "." in a.argument]
        known = dict(self.values) | {name.replace(".", "_"): self._value(name) for name in paths}
        try:
            kinds = self.operator.kinds | dict.fromkeys(paths, ANY)
            expression = compile_condition(text, kinds)
            scope = {"torch": torch, "__builtins__": {"len": len}}
            return bool(eval(expression, scope, known))
        except Exception as error:  # also a condition that does not fit a Python function
            raise self._failed(f"where: {text!r}", f"{type(error).__name__}: {error}") from error

    def _failed(self, condition: str, reason: str) -> LoweringError:
        return LoweringError(
            f"{self.alternative.location}: {self.entry.qualified}: {self.alternative.name}:"
            f" when: {condition} cannot be evaluated for {written_operands(self.operands)}:"
            f" {reason}"
        )


# ---- what an alternative computes ----


def as_entry(entry: Composite, alternative: Alternative, decomposition: Decomposition) -> Composite:
    """The entry with another decomposition, as what lowers it takes it. Messages name the file
    that gives the alternative."""
    # A function need not keep the bits of the one that the entry catches.
    return replace(
        entry,
        decomposition=decomposition,
        functions=(),
        alternatives=(),
        location=alternative.location,
    )


def has_stock_bits(entry: Composite, alternative: Alternative) -> bool:
    """Whether an alternative must give the same bits as what the entry replaces."""
    return alternative.keeps_bits and keeps_stock_bits(entry)


def forward_of(
    entry: Composite, decomposition: Decomposition, call: Call, *, saved: bool
) -> Callable[..., list[Any]]:
    """An alternative's decomposition as a function of the operands.

    Args:
        saved: whether it returns the further results of `saves` too.
    """
    assert decomposition.target is not None
    function = find_function(decomposition.target)
    count = len(entry.saved)

    def forward(*operands: Any) -> list[Any]:
        returned = call(function, *operands)
        flat = list(returned) if isinstance(returned, list | tuple) else [returned]
        if len(flat) <= count:
            names = ", ".join(name for name, _ in entry.saved)
            raise TypeError(f"it returns {len(flat)} tensors; return the results, and {names}")
        split = len(flat) - count
        return [*entry.exposed(flat[:split]), *(flat[split:] if saved else ())]

    return forward


def lower_alternative(
    changed: Composite,
    frontend: Frontend,
    function: Callable[..., Sequence[Any]],
    operands: Sequence[Any],
    autocast: Any = None,
    *,
    as_stock: bool,
) -> TracedFunction:
    """Trace a function of the operands that runs an alternative.

    Args:
        changed: the entry with the alternative; see `as_entry`.
        as_stock: see `has_stock_bits`.

    Raises:
        LoweringError: it failed, or draws random numbers.
        UnsupportedCallError: it leaves the call to another decomposition.
        MissingPackageError: jax is not installed.
    """
    if changed.decomposition.kind == "jax":
        return lower_jax_function(changed, frontend, function, operands)

    def of_tensors(*tensors: Any) -> Any:
        with torch.no_grad():
            results = function(*tensors)
        require_tensors(results)
        return [result.detach() for result in results]

    lowered = lower_function(
        changed, frontend, of_tensors, operands, autocast=autocast, as_stock=as_stock
    )
    if lowered.draws:
        raise LoweringError(
            f"{changed.location}: {changed.qualified}: {changed.decomposition} draws random"
            " numbers, and other ones than the stock decomposition; an alternative cannot, so leave"
            " such calls out in its `when`"
        )
    return lowered


def backward_of(
    backward: Decomposition,
    gradients: Sequence[str],
    values: Callable[..., Mapping[str, Any]],
    wanted: Sequence[bool],
) -> Callable[..., list[Any]]:
    """An alternative's backward as a function of the derived backward's operands.

    Args:
        gradients: the operands whose gradients it returns.
        values: from these operands to all values that it can take, by name.
        wanted: for each of `gradients`, whether somebody needs it. The others are None.
    """
    target = backward.target
    assert target is not None
    function = find_function(target)
    parameters = backward_parameters(function, target)

    def run(*operands: Any) -> list[Any]:
        known = {**values(*operands), OUTPUT_MASK: tuple(wanted)}
        returned = function(**{name: known[name] for name in parameters if name in known})
        found = list(returned) if isinstance(returned, list | tuple) else [returned]
        if len(found) != len(gradients):
            raise TypeError(
                f"it returns {len(found)} gradients; return {len(gradients)}, of"
                f" {', '.join(gradients)}"
            )
        for name, gradient, asked in zip(gradients, found, wanted, strict=True):
            if asked and gradient is None:
                raise TypeError(f"it returns None for the gradient of {name}")
        return [gradient if asked else None for gradient, asked in zip(found, wanted, strict=True)]

    return run
