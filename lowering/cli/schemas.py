"""JSON Schemas of the JSON that commands write, for `composites schema COMMAND`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, create_model

COMMANDS = (
    *("check", "compare", "diagnose", "diff", "doctor", "env", "inspect", "list", "run", "show"),
    *("suggest", "verify", "watch"),
)
_NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]}
"""JSON has no infinities and no NaN, which are text."""
_COMPUTED: Mapping[str, tuple[str, str, Any]] = {
    "verify": ("Row", "verdict", {"enum": ["verified", "failed", "not verified"]}),
    "suggest": ("SuggestionReport", "inside", {"anyOf": [_NUMBER, {"type": "null"}]}),
}
"""What commands add to a dataclass: its name, the key and the schema."""


def output_schema(command: str) -> dict[str, Any]:
    """The JSON Schema of what one of COMMANDS writes."""
    schema = _with_text(TypeAdapter(_type(command)).json_schema(mode="serialization"))
    if command in _COMPUTED:
        name, key, computed = _COMPUTED[command]
        definition = schema.get("$defs", {}).get(name, schema)
        definition["properties"][key] = computed
        definition["required"].append(key)
    return dict(schema)


def _type(command: str) -> Any:
    """The type of what a command writes. Modules are imported when they are needed."""
    match command:
        case "check":
            from composites.errors import Problem

            return _object(problems=Sequence[Problem], warnings=Sequence[str])
        case "compare":
            from lowering.stablehlo import Comparison

            return Comparison
        case "diagnose":
            from lowering.stablehlo.diagnosis.results import Diagnosis

            return Diagnosis
        case "diff":
            from composites.contracts.changes import Change

            return _object(changes=Sequence[Change], compatible=bool)
        case "doctor":
            from lowering.cli.doctor import Finding

            return _object(problems=int, warnings=int, findings=Sequence[Finding])
        case "env":
            variable: Any = _object(name=str, meaning=str, example=str, value=str)
            return _object(variables=Sequence[variable])
        case "inspect":
            from lowering.stablehlo.inspection.cast_report import CastReport
            from lowering.stablehlo.inspection.report import Report

            call: Any = _object(composite=str, version=int, count=int, reason=str)
            return Report | CastReport | _object(not_understood=Sequence[call])
        case "list":
            from composites.registry.packages import LeftOut
            from lowering.cli.listing import Kernel, Listed

            entries = _object(composites=Sequence[Listed], left_out=Sequence[LeftOut])
            return entries | _object(kernels=Sequence[Kernel])
        case "run":  # a line of XLA_COMPOSITE_STATS
            from lowering.stats.data import Stats

            return Stats
        case "show":
            from lowering.cli.description import Description

            return _object(composites=Sequence[Description])
        case "suggest":
            from lowering.suggestion.suggest import SuggestionReport

            return SuggestionReport
        case "verify":
            from lowering.verification.results import Row

            return Sequence[Row]
        case "watch":
            from composites.registry.mentions import Difference

            return _object(differences=Sequence[Difference])
    raise AssertionError(command)


def _object(**types: Any) -> Any:
    """A mapping with these keys."""
    fields: dict[str, Any] = {name: (type_, ...) for name, type_ in types.items()}
    return create_model("Output", **fields)


def _with_text(schema: Any) -> Any:
    """Numbers may also be text."""
    if isinstance(schema, list):
        return [_with_text(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "number":
        return _NUMBER
    return {key: _with_text(value) for key, value in schema.items()}
