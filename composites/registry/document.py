"""The structure of a registry file as pydantic models: keys and types.

Short forms are expanded before they are checked. `silu: aten::silu` is an entry with only `op`, and
`attributes: [eps, dim: {normalize: dim}]` lists arguments by name, or as a mapping if an argument
needs more keys. Checks that need the operator's schema (does the argument exist, does the type fit)
are in `validation`. Editors use `json_schema()` to complete and check vendor files.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    Tag,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from composites import attribute_types
from composites.element_types import BY_NAME, REGISTRY_TYPES
from composites.errors import did_you_mean
from composites.registry.model import AUTOMATIC, CONSUMERS, DERIVE, GOALS, KERNEL_PLATFORMS, VERSION
from composites.registry.old_keys import OLD as OLD_KEY

# A composite's whole name must match ^[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+$ (StableHLO's
# verifier, stablehlo/dialect/TypeInference.cpp). This project adds the dot between namespace and
# name.
NAMESPACE = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*(\.[a-zA-Z0-9_$]+)*", re.ASCII)
NAME = re.compile(r"[a-zA-Z0-9_$]+(\.[a-zA-Z0-9_$]+)*", re.ASCII)
ENTRY_NAME = re.compile(rf"{NAME.pattern}(@{VERSION.pattern})?", re.ASCII)
ATTRIBUTE_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_$.]*", re.ASCII)
OPERATOR = re.compile(r"\w+::\w+(\.\w+)?", re.ASCII)
TARGET = re.compile(r"(jax:)?[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
PACKAGE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)?")
JAX_FUNCTION = re.compile(rf"{FUNCTION.pattern}(\.<locals>\.[^\W\d]\w*)?")
INTERMEDIATE = re.compile(r"[^\W\d]\w*")

KERNELS_FILE = re.compile(rf"{PACKAGE.pattern}:[\w.-]+\.yaml", re.ASCII)
OTHER_COMPOSITE = re.compile(rf"{NAMESPACE.pattern}\.{ENTRY_NAME.pattern}", re.ASCII)

MAX_VERSION = 2**31 - 1
"""StableHLO writes a version as i32."""

Scalar = bool | int | float | str
_List = list[Scalar]
_Lists = list[Scalar | _List]
Constant = Scalar | list[Scalar | list[Scalar | _Lists]]
"""A number, text, or a list. Lists can be nested three deep (`attribute_types.DEEPEST`)."""

if TYPE_CHECKING:
    Goal = str
    Consumer = str
else:  # pydantic and the JSON Schema need the names themselves
    Goal = Literal[(*GOALS, *AUTOMATIC)]
    Consumer = Literal[CONSUMERS]

FORWARD = "forward"
"""`attributes: forward` in a backward stands for the attributes of its forward."""

NO_ATTRIBUTE_TYPE = "is not an attribute type"

_LETTERS = "letters, digits, _ and $, joined by dots"
_A_NAME = f"a composite name: {_LETTERS}"
_A_FUNCTION = "a function; write package.module:function"
_A_TARGET = f"{_A_FUNCTION}, or jax:package.module:function for a JAX function"


def _matching(pattern: re.Pattern[str] | str, what: str, is_not: str = "is not") -> BeforeValidator:
    """Return a validator that rejects text that does not match a pattern."""

    def check(value: Any) -> Any:
        if isinstance(value, str) and not re.fullmatch(pattern, value):
            raise ValueError(f"{value!r} {is_not} {what}")
        return value

    return BeforeValidator(check)


def _attribute_type(value: Any) -> Any:
    if isinstance(value, str) and attribute_types.attribute_type(value) is None:
        raise ValueError(NO_ATTRIBUTE_TYPE)
    return value


def _entry_name(value: Any) -> Any:
    if isinstance(value, str) and not ENTRY_NAME.fullmatch(value):
        about = "; a version follows @ as a number, as in gelu@2" if "@" in value else ""
        raise ValueError(f"{value!r} is not {_A_NAME}{about}")
    return value


def _no_choice(value: Any) -> Any:
    if value in (*AUTOMATIC, *GOALS):
        raise ValueError(
            f"{value!r} cannot be the name of a kernel, because it is a goal; choose another name,"
            " and write the goal in `goals`"
        )
    return value


def _schema(value: Any) -> Any:
    if isinstance(value, bool):  # True equals 1, also in pydantic
        raise ValueError(f"schema: must be 1 or 2, not {value}")
    return value


AttributeTypeName = Annotated[
    str,
    BeforeValidator(_attribute_type),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": list(attribute_types.NAMES)},
                {"type": "string", "pattern": r"^array<.+>$"},
            ]
        }
    ),
]
FunctionName = Annotated[str, _matching(FUNCTION, f"{_A_FUNCTION} or package.module:Class.method")]
JaxFunctionName = Annotated[
    str,
    _matching(
        JAX_FUNCTION,
        f"{_A_FUNCTION}, package.module:Class.method, or package.module:function.<locals>.name for"
        " a function that a function defines",
    ),
]
Caught = Annotated[
    str,
    _matching(
        f"(?a:{OPERATOR.pattern})|{FUNCTION.pattern}",
        "an operator such as aten::mm.out nor package.module:function",
        "is neither",
    ),
]
PackageName = Annotated[str, _matching(PACKAGE, "a package such as transformers or acme.layers")]
Namespace = Annotated[str, _matching(NAMESPACE, "a composite namespace such as acme")]
Name = Annotated[str, _matching(NAME, _A_NAME)]
EntryName = Annotated[str, BeforeValidator(_entry_name)]
KernelName = Annotated[
    str,
    BeforeValidator(_no_choice),
    _matching(NAME, f"the name of a kernel: {_LETTERS}"),
]
OtherComposite = Annotated[
    str, _matching(OTHER_COMPOSITE, "a composite with its namespace, such as ptxla.gelu@1")
]
AttributeName = Annotated[str, _matching(ATTRIBUTE_NAME, "an attribute name such as approximate")]
Version = Annotated[int, Field(ge=0, le=MAX_VERSION)]


def _check_element_type(key: str, dtype: Scalar) -> None:
    if dtype not in REGISTRY_TYPES:
        hint = did_you_mean(str(dtype), REGISTRY_TYPES)
        names = ", ".join(REGISTRY_TYPES)
        raise ValueError(f"{key}: {dtype!r} is not an element type{hint} (known: {names})")


def _check_conditions(when: dict[str, list[Scalar]]) -> dict[str, list[Scalar]]:
    for name, allowed in when.items():
        if not allowed:
            raise ValueError(f"when: {name}: the list is empty; write a value, or leave {name} out")
    for dtype in when.get("dtypes", ()):
        if dtype in BY_NAME and dtype not in REGISTRY_TYPES:
            names = ", ".join(REGISTRY_TYPES)
            raise ValueError(f"when: torch_xla has no tensors of {dtype} (it has {names})")
        _check_element_type("when", dtype)
    for rank in when.get("rank", ()):
        if type(rank) is not int or rank < 0:
            raise ValueError(f"when: {rank!r} is not a rank; write a number such as 4")
    for text in when.get("where", ()):
        if not isinstance(text, str):
            raise ValueError(f"when: where: {text!r} is not an expression")
    return when


def _check_tolerance(tolerance: Any) -> Any:
    if not isinstance(tolerance, dict):
        raise ValueError(f"tolerance: must be a mapping such as {{f32: 1.0e-5}}, not {tolerance!r}")
    for dtype, limit in tolerance.items():
        _check_element_type("tolerance", dtype)
        if type(limit) not in (int, float) or not 0 <= limit < math.inf:  # 1e-5 is text in YAML
            raise ValueError(f"tolerance: {limit!r} is not a number from 0, such as 1.0e-5")
        if not dtype.startswith(("f", "bf", "complex")):
            raise ValueError(f"tolerance: results of {dtype!r} must be equal; list types of floats")
    return tolerance


def _check_kernels(kernels: Kernels) -> Kernels:
    for name, kernel in kernels.items():
        is_list = isinstance(kernel, list)
        if is_list and name.lower() == "gpu":
            raise ValueError(f"{name!r} is two platforms; write cuda or rocm")
        if is_list and name.lower() in KERNEL_PLATFORMS and name not in KERNEL_PLATFORMS:
            raise ValueError(f"{name!r} is not a platform; did you mean {name.lower()!r}?")
        if not is_list and name in KERNEL_PLATFORMS:
            raise ValueError(
                f"{name!r} is a platform, and its kernels are a list; choose another name for a"
                " decomposition to choose"
            )
    return kernels


class _ItemAlone:
    """Lets the JSON Schema accept one item without a list around it."""

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Any:
        schema = handler(core)
        item = schema["items"]
        return {"anyOf": [*item.get("anyOf", [item]), schema]}


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def long_entry(value: Any) -> Any:
    """Expand an entry that is only an operator to a mapping."""
    return {"op": value} if isinstance(value, str) else value


def _spelled_out(value: Any) -> Any:
    return {"from": value} if isinstance(value, str) else value


def _named(value: Any) -> Any:
    """Convert attributes to a mapping. By default, `from` is the argument of the same name."""
    if value == FORWARD:
        return {}
    if not isinstance(value, list | dict):
        raise ValueError(
            f"attributes: must be a list such as [dim, keepdim], a mapping, or {FORWARD}, not"
            f" {value!r}"
        )
    named: dict[str, Any] = {}
    mistakes: list[InitErrorDetails] = []
    for number, item in enumerate(value if isinstance(value, list) else [value]):
        if not isinstance(item, str | dict):
            message = (
                f"{item!r} is not an attribute; write the name of an argument such as dim, or a"
                " name with more, such as dim: {from: dim, normalize: dim}"
            )
            mistakes.append(_mistake((number,), message))
            continue
        for name, attribute in ({item: item} if isinstance(item, str) else item).items():
            if name in named:
                path = (number,) if isinstance(item, str) else (number, name)
                mistakes.append(_mistake(path, f"{name!r} appears twice"))
            if isinstance(attribute, dict) and not {"from", "value"} & set(attribute):
                attribute = {"from": name, **attribute}
            named[name] = attribute
    if mistakes:
        raise ValidationError.from_exception_data("attributes", mistakes)
    return named


def _mistake(path: tuple[int | str, ...], message: str) -> InitErrorDetails:
    """Describe a mistake at a path inside a value."""
    error = PydanticCustomError("value_error", "{message}", {"message": message})
    return InitErrorDetails(type=error, loc=path, input=None)


_Item = TypeVar("_Item")
OneOrMore = Annotated[list[_Item], BeforeValidator(_listed), _ItemAlone()]
Conditions = Annotated[dict[str, OneOrMore[Scalar]], AfterValidator(_check_conditions)]
Tolerance = Annotated[dict[str, float], BeforeValidator(_check_tolerance)]
"""The greatest errors that are accepted, by element type."""


# Keys must not share a `Field`: pydantic 2.11 adds the checks of an annotation to its `Field`.


def _no_items() -> Any:
    return Field(default_factory=list)


def _no_keys() -> Any:
    return Field(default_factory=dict)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class AttributeDocument(_Strict):
    """An attribute: `{from: ARGUMENT}` or `{value: CONSTANT}`, with an optional type."""

    from_: str | None = Field(default=None, alias="from")
    value: Constant | None = None
    type: AttributeTypeName | None = None
    normalize: Literal["dim"] | None = None
    optional: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> AttributeDocument:
        if (self.from_ is None) == (self.value is None):
            raise ValueError("write either `from:` an operator argument or `value:` a constant")
        if self.value is not None and (self.normalize or self.optional):
            raise ValueError("a constant cannot have `normalize` or `optional`")
        return self


_Attributes = dict[
    AttributeName,
    Annotated[
        AttributeDocument,
        BeforeValidator(_spelled_out, json_schema_input_type=str | AttributeDocument),
    ],
]


class AlternativeDocument(_Strict):
    """Another decomposition of an entry, which settings can choose."""

    goals: OneOrMore[Goal] = _no_items()
    not_for: OneOrMore[Consumer] = _no_items()
    only_for: OneOrMore[Consumer] = _no_items()
    when: Conditions = _no_keys()
    decomposition: Annotated[str, _matching(TARGET, _A_TARGET)] | None = None
    backward: Annotated[str, _matching(f"{DERIVE}|{TARGET.pattern}", _A_TARGET)] | None = None
    gradients: list[str] = _no_items()
    tolerance: Tolerance = _no_keys()
    samples: FunctionName | None = None

    @model_validator(mode="after")
    def _something(self) -> AlternativeDocument:
        if self.not_for and self.only_for:
            raise ValueError("write `not_for` or `only_for`, not both")
        if self.decomposition is None and self.backward is None:
            raise ValueError("a kernel needs `decomposition`, `backward`, or both")
        if self.backward == DERIVE and self.decomposition is None:
            raise ValueError(
                "backward: derive needs `decomposition`, from which the backward is derived"
            )
        if (self.backward not in (None, DERIVE)) != bool(self.gradients):
            raise ValueError(
                "write both `backward: package.module:function` and `gradients`, the operands whose"
                " gradients it returns, or neither"
            )
        return self


class KernelDocument(_Strict):
    """A kernel for a platform: a JAX function, or a target of XLA's typed FFI."""

    function: FunctionName | None = None
    target: Annotated[str, _matching(r"\S+", "an FFI target such as acme_gelu")] | None = None
    library: FunctionName | None = None
    version: Version | None = None
    operands: list[Annotated[str, _matching(r"(?a:[a-z_A-Z]\w*)", "a name such as x")]] = (
        _no_items()
    )
    when: Conditions = _no_keys()
    ignores: list[AttributeName] = _no_items()
    priority: int = 0

    @model_validator(mode="after")
    def _one_kernel(self) -> KernelDocument:
        if (self.function is None) == (self.target is None):
            raise ValueError("a kernel needs either `function` or `target`")
        if self.library is not None and self.target is None:
            raise ValueError("library: is for a `target`; a function loads its own")
        return self


_PLATFORM_KERNELS = "kernels of a platform"
_TO_CHOOSE = "decomposition to choose"


def _form(value: Any) -> str:
    return _PLATFORM_KERNELS if isinstance(value, list) else _TO_CHOOSE


Kernels = dict[str, AlternativeDocument | list[KernelDocument]]
"""Decompositions to choose, by name, and lists of kernels, by platform."""

_OneKernel = Annotated[
    Annotated[list[KernelDocument], Tag(_PLATFORM_KERNELS)]
    | Annotated[AlternativeDocument, Tag(_TO_CHOOSE)],
    Discriminator(_form),
]
_Kernels = Annotated[dict[KernelName, _OneKernel], AfterValidator(_check_kernels)]


class CompositeDocument(_Strict):
    """One entry. docs/registry.md explains each key."""

    op: (
        Annotated[str, _matching(OPERATOR, "an operator such as aten::gelu or aten::mean.dim")]
        | None
    ) = None
    function: OneOrMore[FunctionName] = _no_items()
    copies: OneOrMore[PackageName] = _no_items()
    composite: Name | None = None
    version: Version = 1
    operands: list[str] | None = None
    attributes: Annotated[
        _Attributes,
        BeforeValidator(
            _named,
            json_schema_input_type=list[str | _Attributes] | _Attributes | Literal["forward"],
        ),
    ] = _no_keys()
    when: Conditions = _no_keys()
    adapt: FunctionName | None = None
    decomposition: Annotated[
        str,
        _matching(
            f"native|{TARGET.pattern}",
            "a decomposition; write native, package.module:function, or"
            " jax:package.module:function for a JAX function",
        ),
    ] = "native"
    backward: str | None = None
    results: list[Annotated[int, Field(ge=0)]] = _no_items()
    saves: list[str | dict[str, FunctionName]] | None = None
    intermediates: list[
        Annotated[str, _matching(INTERMEDIATE, "the name of a value, such as gates")]
    ] = _no_items()
    gradients: list[str] = _no_items()
    group: Name | None = None
    fuses: Name | None = None
    rewrites: dict[Caught, FunctionName] = _no_keys()
    jax: dict[JaxFunctionName, FunctionName] = _no_keys()
    example: dict[str, Scalar | list[Scalar] | None] = Field(default_factory=dict)
    samples: FunctionName | None = None
    tolerance: Tolerance = _no_keys()
    kernels: _Kernels = _no_keys()

    @model_validator(mode="after")
    def _one_source(self) -> CompositeDocument:
        if self.op is not None and self.function:
            raise ValueError("an entry has either `op` or `function`, not both")
        if self.op is None and not self.function and not self.gradients:
            raise ValueError(
                "key 'op' is missing; an entry needs `op`, `function`, or `gradients` (for the"
                " backward of another entry)"
            )
        if self.copies and not self.function:
            raise ValueError("copies: needs `function`, whose copies are caught")
        return self


_Row = Annotated[str, Field(pattern=f"^{OPERATOR.pattern}$")]
"""An entry that consists only of an operator."""


class RegistryDocument(_Strict):
    """A whole file."""

    schema_: Annotated[Literal[1, 2], BeforeValidator(_schema)] = Field(alias="schema")
    namespace: Namespace
    composites: dict[
        EntryName,
        Annotated[
            CompositeDocument,
            BeforeValidator(long_entry, json_schema_input_type=_Row | CompositeDocument),
        ],
    ]
    extends: dict[str, list[str]] = _no_keys()
    """Names of files in the same folder, and the entries that this file includes from each."""
    samples: (
        Annotated[str, _matching(PACKAGE, "a module with samples such as acme.samples")] | None
    ) = None
    """A module of functions that yield samples. Each has the name of its entry."""
    kernels: dict[OtherComposite, _Kernels] = _no_keys()
    """Kernels for entries and composites of any registry, by name with namespace."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a registry file, for editors. It has short and long forms."""
    schema = RegistryDocument.model_json_schema(by_alias=True)
    kernels = schema["properties"]["kernels"]
    mapping = {key: kernels.pop(key) for key in ("type", "additionalProperties")}
    kernels["anyOf"] = [mapping, {"type": "string", "pattern": f"^{KERNELS_FILE.pattern}$"}]
    named = {
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/AlternativeDocument"},
        "deprecated": True,
    }
    schema["$defs"]["CompositeDocument"]["properties"][OLD_KEY] = named
    schema["properties"][OLD_KEY] = {
        "type": "object",
        "additionalProperties": named,
        "deprecated": True,
    }
    return schema
