"""`inspect`: the composites of a module, their counts, and their share of the work."""

import json
import math
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..bindings import nested_operations
from ..composites import Signature, call_counts
from ..dtypes import byte_size
from ..ir_types import IrModule
from ..module import Module
from ..symbols import CALL, COMPOSITE, callees_first, executions, functions, is_private, target

_USES = (COMPOSITE, CALL)
# Constants and terminators do no work at run time; the work of calls is counted in their callees.
_NOT_COUNTED = frozenset(
    {"stablehlo.constant", "stablehlo.return", "func.return", "func.func", *_USES}
)


@dataclass(frozen=True)
class JsonReport:
    """A dataclass that is written as JSON."""

    def to_json(self) -> str:
        """The report as JSON with sorted keys, so that equal modules give equal text.

        JSON has no infinity and no NaN: such values become the text `inf`, `-inf` or `nan`. Parts
        that were not requested are left out.
        """
        data = finite(self.asked(asdict(self)))
        return json.dumps(data, indent=2, sort_keys=True, allow_nan=False)

    def asked(self, data: dict[str, Any]) -> dict[str, Any]:
        """The data without parts that were not requested."""
        return data


@dataclass(frozen=True)
class CompositeReport:
    """All calls of one composite that agree on version, attributes and types."""

    name: str
    version: int
    attributes: dict[str, Any]
    """The composite's attributes as Python values."""
    operands: tuple[str, ...]
    """Operand types, as MLIR text."""
    results: tuple[str, ...]
    """Result types, as MLIR text."""
    count: int
    """The number of such calls once everything is inlined into the public functions."""
    operations: int
    """Number of operations in the decomposition, for one call."""
    bytes: int
    """Bytes of the values that the operations of the decomposition produce, for one call."""
    share: float
    """count * operations, as a fraction of the module's operations (0 to 1)."""


@dataclass(frozen=True)
class Report(JsonReport):
    """The result of `inspect`.

    Operations are counted as if every composite and call were inlined into the public functions.
    Operations in regions (the body of a loop or a reduction) count once, however often they run.
    Constants and terminators are not counted. Bytes are the sizes of the values that the counted
    operations produce. A dynamic dimension counts as 1. A composite inside another composite's
    decomposition is listed too. Its operations belong to both, so shares can add up to more than 1.
    """

    module: str
    """The module's symbol name."""
    operations: int
    """Number of operations in the whole module."""
    plain_operations: int
    """Number of operations that are not in a composite."""
    bytes: int
    """Bytes of the values that the operations of the whole module produce."""
    composites: tuple[CompositeReport, ...]
    """Largest share first; equal shares in order of first use."""


@dataclass(frozen=True)
class _Body:
    """The size of one function, including the functions that it refers to."""

    plain_operations: int
    operations: int
    bytes: int


def inspect(module: Module) -> Report:
    """Count the composites, operations and bytes of a module; see `Report`."""
    bodies = _measure(module.ir)
    public = _public(module.ir, bodies)
    # Functions that are reached through plain calls only are not part of a composite.
    outside = executions(module.ir, lambda used: used.name == CALL)
    rows = list(_rows(module.ir, bodies).values())
    return Report(
        module=module.name,
        operations=sum(body.operations for body in public),
        plain_operations=sum(outside[name] * bodies[name].plain_operations for name in bodies),
        bytes=sum(body.bytes for body in public),
        composites=tuple(sorted(_merged(rows), key=lambda row: -row.share)),
    )


def distinct_calls(module: Module) -> dict[tuple[Signature, str], CompositeReport]:
    """The composites of a module by signature and decomposition, the largest share first."""
    rows = _rows(module.ir, _measure(module.ir))
    return dict(sorted(rows.items(), key=lambda item: -item[1].share))


def _rows(
    module: IrModule, bodies: dict[str, _Body]
) -> dict[tuple[Signature, str], CompositeReport]:
    total = sum(body.operations for body in _public(module, bodies))
    return {
        (call, decomposition): CompositeReport(
            name=call.name,
            version=call.version,
            attributes=call.python_attributes(),
            operands=call.operands,
            results=call.results,
            count=count,
            operations=bodies[decomposition].operations,
            bytes=bodies[decomposition].bytes,
            share=count * bodies[decomposition].operations / total if total else 0.0,
        )
        for (call, decomposition), count in call_counts(module, executions(module)).items()
        if decomposition in bodies
    }


def _merged(rows: list[CompositeReport]) -> list[CompositeReport]:
    """Merge the rows of calls that differ only in the (equally large) function they refer to."""
    merged: dict[str, CompositeReport] = {}
    for row in rows:
        key = repr(replace(row, count=0, share=0.0))
        if key in merged:
            count, share = merged[key].count + row.count, merged[key].share + row.share
            row = replace(row, count=count, share=share)
        merged[key] = row
    return list(merged.values())


def _measure(module: IrModule) -> dict[str, _Body]:
    by_name = functions(module)
    bodies: dict[str, _Body] = {}
    for name in callees_first(module):
        operations = nested_operations(by_name[name])
        uses = [target(operation) for operation in operations if operation.name in _USES]
        plain = [operation for operation in operations if operation.name not in _NOT_COUNTED]
        types = Counter(result.type for operation in plain for result in operation.results)
        inner = [bodies[used] for used in uses if used in bodies]
        size = sum(count * byte_size(type_) for type_, count in types.items())
        bodies[name] = _Body(
            plain_operations=len(plain),
            operations=len(plain) + sum(body.operations for body in inner),
            bytes=size + sum(body.bytes for body in inner),
        )
    return bodies


def _public(module: IrModule, bodies: dict[str, _Body]) -> list[_Body]:
    return [bodies[name] for name, f in functions(module).items() if not is_private(f)]


def finite(value: Any) -> Any:
    """Data for JSON, with text instead of infinities and NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return value


def composite_count(module: Module) -> dict[str, int]:
    """The number of each composite's calls once everything is inlined, sorted by name."""
    counts: dict[str, int] = {}
    for row in inspect(module).composites:
        counts[row.name] = counts.get(row.name, 0) + row.count
    return dict(sorted(counts.items()))
