"""JSON Schemas of the JSON that commands print, and of further files, for `composites schema`."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from pydantic import TypeAdapter, create_model

from composites.contracts.changes import Change
from composites.errors import Problem
from composites.registry.mentions import Mismatch
from lowering.cli.doctor import Status
from lowering.export.dimensions import Dimension
from lowering.stablehlo import Comparison
from lowering.stablehlo.diagnosis.bisection import Bisection
from lowering.stablehlo.diagnosis.results import Diagnosis
from lowering.stablehlo.inspection.cast_report import CastReport
from lowering.stablehlo.inspection.report import Report
from lowering.stats.data import Stats
from lowering.verification.results import Row, Verdict


def _object(**types: Any) -> Any:
    """The type of a mapping with keys. A key with a type and a default may be absent."""
    fields: dict[str, Any] = {
        name: type_ if isinstance(type_, tuple) else (type_, ...) for name, type_ in types.items()
    }
    return create_model("Output", **fields)


_VARIABLE: Any = _object(name=str, meaning=str, example=str, value=str)
_CALL: Any = _object(composite=str, version=int, count=int, reason=str)
_VALUE: Any = _object(
    name=str,
    shape=Sequence[int | str],
    dtype=str,
    updates=str | None,
    sharding=(Sequence[Sequence[str]], ()),
    kept=(str, ""),
)
_NODE: Any = _object(value=float, bgColor=(str, ""))
_SHADE: Any = _object(stop=float, bgColor=str)
_GRAPH: Any = _object(name=str, results=Mapping[str, _NODE], gradient=(Sequence[_SHADE], ()))
OUTPUTS: Mapping[str, Any] = {
    "check": _object(problems=Sequence[Problem], warnings=Sequence[str]),
    "compare": Comparison,
    "describe": "lowering.cli.description:Shown",
    "diagnose": Diagnosis | Bisection,
    "diff": _object(changes=Sequence[Change], compatible=bool),
    "doctor": _object(problems=int, warnings=int, findings=Sequence[Status]),
    "env": _object(variables=Sequence[_VARIABLE]),
    "inspect": Report | CastReport | _object(not_understood=Sequence[_CALL]),
    "list": "lowering.cli.listing:Output",
    "manifest.json": _object(
        format=int,
        inputs=Sequence[_VALUE],
        outputs=Sequence[_VALUE],
        composites=Mapping[str, int],
        sha256=Mapping[str, str],
        mesh=(Mapping[str, int], {}),
        keeps_decompositions=(bool, False),
        dimensions=(Sequence[Dimension], ()),
    ),
    "node-data": _object(main=_GRAPH),
    "run": Stats,  # a line of XLA_COMPOSITE_STATS
    "show": "lowering.cli.description:Shown",
    "suggest": "lowering.suggestion.suggest:SuggestionReport",
    "verify": Sequence[Row],
    "watch": _object(differences=Sequence[Mismatch]),
}
"""The types of the output of commands and of --node-data, and of the manifest of a program;
`module:NAME` if the module needs torch."""
_NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]}
"""The schema of a number. JSON has no infinities and no NaN, so these are text."""


def output_schema(command: str) -> dict[str, Any]:
    """Make the JSON Schema of the output of a command of OUTPUTS."""
    written = OUTPUTS[command]
    if isinstance(written, str):
        module, _, name = written.partition(":")
        written = getattr(import_module(module), name)
    schema = _with_text(TypeAdapter(written).json_schema(mode="serialization"))
    if command == "verify":  # the command adds a property of rows
        row = schema["$defs"]["Row"]
        row["properties"]["verdict"] = {"enum": [*Verdict]}
        row["required"].append("verdict")
    return dict(schema)


def _with_text(schema: Any) -> Any:
    """A schema in which numbers may also be text."""
    if isinstance(schema, list):
        return [_with_text(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "number":
        return _NUMBER
    return {key: _with_text(value) for key, value in schema.items()}
