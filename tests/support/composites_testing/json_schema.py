"""The part of JSON Schema that pydantic writes."""

from typing import Any

TYPES: dict[str, Any] = {"array": list, "boolean": bool, "integer": int}
TYPES |= {"object": dict, "string": str}


def accepts(schema: Any, value: Any, *, whole: Any = None, closed: bool = False) -> bool:
    """Return whether a value matches a schema, or a part of the `whole` one. With `closed`,
    mappings have no other keys than the schema lists."""
    whole = whole or schema

    def fits(part: Any, value: Any) -> bool:
        return accepts(part, value, whole=whole, closed=closed)

    if isinstance(schema, bool):
        return schema
    if "$ref" in schema:
        return fits(whole["$defs"][schema["$ref"].rpartition("/")[2]], value)
    if "anyOf" in schema:
        return any(fits(option, value) for option in schema["anyOf"])
    if "oneOf" in schema:
        return sum(fits(option, value) for option in schema["oneOf"]) == 1
    if "enum" in schema:
        return value in schema["enum"]
    if "const" in schema:
        return bool(value == schema["const"])
    match schema.get("type"):
        case None:
            return True
        case "null":
            return value is None
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "integer" if isinstance(value, bool):
            return False
        case kind if not isinstance(value, TYPES[kind]):
            return False
        case "array":
            return all(fits(schema.get("items", True), item) for item in value)
        case "object":
            properties = schema.get("properties", {})
            additional = schema.get("additionalProperties", not (properties and closed))
            return set(schema.get("required", ())) <= set(value) and all(
                fits(properties.get(key, additional), item) for key, item in value.items()
            )
    return True
