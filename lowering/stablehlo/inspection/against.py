"""`not_understood`: the calls of a module that do not match the contracts of a lock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from composites.attribute_types import SEGMENT_SIZES
from composites.contracts.model import GRADIENTS, OUTPUT_MASK, SEED, AttributeSpec, Contract, Lock
from composites.errors import did_you_mean

from ..dtypes import as_f32
from .report import CompositeReport, Report
from .table import report_table

if TYPE_CHECKING:
    from rich.table import Table

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "i64": (int,),
    "i32": (int,),
    "f32": (float,),
    "f64": (float,),
    "bool": (bool,),
    "string": (str,),
    "type": (str,),
}


@dataclass(frozen=True)
class NotUnderstood:
    """A composite of a module, and the reason why a kernel of the lock must not take its calls."""

    call: CompositeReport
    reason: str


def not_understood(report: Report, lock: Lock) -> tuple[NotUnderstood, ...]:
    """The composites of a report that no contract of a lock describes, in the report's order."""
    reasons = ((call, _reason(call, lock)) for call in report.composites)
    return tuple(NotUnderstood(call, reason) for call, reason in reasons if reason is not None)


def against_table(calls: Iterable[NotUnderstood], source: str) -> Table:
    """The calls that are not understood, one row each."""
    rows = [
        (f"{item.call.name} v{item.call.version}", item.reason, str(item.call.count))
        for item in calls
    ]
    return report_table(("composite", "why"), ("count",), rows, f"not understood with {source}")


def _reason(call: CompositeReport, lock: Lock) -> str | None:
    """The reason why no contract describes a call; None if one does."""
    named = [c for c in lock.contracts if c.composite == call.name]
    if not named:
        hint = did_you_mean(call.name, [c.composite for c in lock.contracts])
        return f"the lock has no composite {call.name}{hint}"
    contracts = [c for c in named if c.version == call.version]
    if not contracts:
        versions = ", ".join(str(n) for n in sorted({c.version for c in named}))
        return f"version {call.version} is not in the lock, which has {versions}"
    reasons = [next(_differences(call, contract), None) for contract in contracts]
    return None if None in reasons else "; ".join(dict.fromkeys(r for r in reasons if r))


def _differences(call: CompositeReport, contract: Contract) -> Iterator[str]:
    described = {attribute.name: attribute for attribute in contract.attributes}
    for name in call.attributes:
        if name not in described:
            yield f"the lock has no attribute {name}"
    for name, attribute in described.items():
        if name in call.attributes:
            yield from _value(attribute, call.attributes[name])
        elif not attribute.optional:
            yield f"attribute {name} is missing"
    is_list = any(operand.variadic for operand in contract.operands)
    yield from (_count_beside_list if is_list else _count_of_operands)(call, contract)
    yield from _count_of_results(call, contract)


def _value(attribute: AttributeSpec, value: Any) -> Iterator[str]:
    if attribute.type is not None and not _has_type(attribute.type, value):
        yield f"attribute {attribute.name} = {value!r} is not of type {attribute.type}"
    elif attribute.argument is None and not _equal(value, attribute.value):
        yield f"attribute {attribute.name} is {value!r}, and the lock has {attribute.value!r}"


def _has_type(type_: str, value: Any) -> bool:
    if type_.endswith("[]"):
        return _have_type(type_.removesuffix("[]"), value)
    if type_.startswith("array<"):
        return _have_type(type_[len("array<") : -1], value)
    return type(value) in _PYTHON_TYPES.get(type_, (type(value),))


def _have_type(item: str, value: Any) -> bool:
    return isinstance(value, tuple) and all(_has_type(item, element) for element in value)


def _equal(value: Any, constant: Any) -> bool:
    if isinstance(value, tuple) and isinstance(constant, tuple) and len(value) == len(constant):
        return all(map(_equal, value, constant))
    if isinstance(value, float) and isinstance(constant, int | float):
        return value in (constant, float(as_f32(constant)))
    return bool(value == constant)


def _count_of_operands(call: CompositeReport, contract: Contract) -> Iterator[str]:
    """Problems of the number of operands, which may differ from the contract's."""
    least = sum(not operand.optional for operand in contract.operands)
    most = len(contract.operands)
    count = len(call.operands)
    fits = least <= count <= most
    if contract.operands and contract.operands[0].name == GRADIENTS:
        fits = count >= least
    elif count == most + 1 or (count > least and not fits):
        fits = call.operands[-1] == SEED and least <= count - 1 <= most
    if not fits:
        expected = str(most) if least == most else f"{least} to {most}"
        yield f"it has {count} operands, and the lock has {expected}"


def _count_beside_list(call: CompositeReport, contract: Contract) -> Iterator[str]:
    """Problems of the number of operands, if one of them is a list of any length."""
    number = len(call.operands)
    least = sum(not (operand.optional or operand.variadic) for operand in contract.operands)
    if number < least:
        yield f"it has {number} operands, and the lock has {least} beside a list"
    sizes = call.attributes.get(SEGMENT_SIZES)
    is_backward = contract.operands[0].name == GRADIENTS
    if isinstance(sizes, tuple) and not is_backward:
        total, count = sum(max(size, 0) for size in sizes), len(contract.operands)
        if len(sizes) != count:
            yield f"{SEGMENT_SIZES} has {len(sizes)} sizes, and the lock has {count} operands"
        elif total not in (number, number - 1):  # the last operand may be the seed
            yield f"it has {number} operands, and {SEGMENT_SIZES} says {total}"


def _count_of_results(call: CompositeReport, contract: Contract) -> Iterator[str]:
    if contract.results is None:
        return
    results, most = len(call.results), len(contract.results)
    # A mask leaves gradients out.
    masked = contract.operator is None and any(a.name == OUTPUT_MASK for a in contract.attributes)
    if not (results <= most if masked else results in (most, most + len(contract.saved))):
        yield f"it has {results} results, and the lock has {most}"
