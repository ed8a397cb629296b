"""PyTorch's operator schemas as frozen values, read with PyTorch's own schema parser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch

from composites.errors import did_you_mean
from composites.registry.model import AttributeType

ArgumentKind = Literal[
    "tensor", "tensors", "int", "float", "bool", "string", "scalar", "ints", "floats", "bools",
    "dtype", "other",
]  # fmt: skip

# How a schema prints an argument's type (torch.Argument.real_type, torch 2.9), and what it is here.
_KINDS: dict[str, ArgumentKind] = {
    "Tensor": "tensor",
    "List[Tensor]": "tensors",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "string",
    "number": "scalar",
    "List[int]": "ints",
    "List[float]": "floats",
    "List[bool]": "bools",
    "ScalarType": "dtype",
}

# The type hint that a generated hook gives an argument of each kind.
ANNOTATIONS: dict[ArgumentKind, str] = {
    "tensor": "Tensor",
    "tensors": "list[Tensor]",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "string": "str",
    "scalar": "Number",
    "ints": "list[int]",
    "floats": "list[float]",
    "bools": "list[bool]",
    "dtype": "torch.dtype",
    "other": "Any",
}

# The attribute types that an argument of each kind can become; the first one is the default, which
# is what existing consumers of stablehlo.composite were tested with.
ATTRIBUTE_TYPES_OF: dict[ArgumentKind, tuple[AttributeType, ...]] = {
    "int": ("i64", "i32", "f32", "f64"),
    "float": ("f32", "f64"),
    "bool": ("bool",),
    "string": ("string",),
    "scalar": ("f32", "f64", "i64", "i32"),
    "ints": ("i64[]", "f32[]"),
    "floats": ("f32[]",),
    "bools": ("bool[]",),
    "dtype": ("string",),  # the name of the element type, such as f32
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an operator."""

    name: str
    kind: ArgumentKind
    optional: bool
    """Whether None is allowed."""
    keyword_only: bool
    has_default: bool
    default: Any = None

    @property
    def is_tensor(self) -> bool:
        return self.kind == "tensor"


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator overload."""

    name: str
    """`aten::gelu`, without the overload."""
    overload: str
    """Empty for the default overload."""
    arguments: tuple[Argument, ...]
    results: tuple[str, ...]
    """Types of the results as the schema prints them."""
    mutates: bool
    """Whether it writes to, or returns a view of, an argument."""
    dissolves: bool
    """Whether PyTorch decomposes it (CompositeImplicitAutograd) before a backend is asked."""
    schema: str

    @property
    def qualified(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def tensors(self) -> tuple[Argument, ...]:
        return tuple(argument for argument in self.arguments if argument.is_tensor)

    def argument(self, name: str) -> Argument | None:
        return next((argument for argument in self.arguments if argument.name == name), None)


class UnknownOperatorError(LookupError):
    """PyTorch has no such operator or overload."""


@cache
def find_operator(text: str) -> Operator:
    """The operator that `aten::name` or `aten::name.overload` names.

    Raises:
        UnknownOperatorError: with the closest match, or the overloads that exist.
    """
    name, _, overload = text.partition(".")
    schemas = torch._C._jit_get_schemas_for_operator(name)
    if not schemas:
        known = sorted({schema.name for schema in torch._C._jit_get_all_schemas()})
        raise UnknownOperatorError(f"PyTorch has no operator {name}{did_you_mean(name, known)}")
    by_overload = {schema.overload_name: schema for schema in schemas}
    if overload not in by_overload:
        names = ", ".join(f"{name}.{key}" if key else name for key in sorted(by_overload))
        raise UnknownOperatorError(
            f"operator {name} has no {f'overload {overload}' if overload else 'default overload'}"
            f" (there are {names})"
        )
    return _operator(by_overload[overload])


def find_overload(operator: Operator) -> Any:
    """The `torch.ops` callable of an operator."""
    namespace, _, name = operator.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name)
    return getattr(packet, operator.overload or "default")


def _operator(schema: Any) -> Operator:
    qualified = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    return Operator(
        name=schema.name,
        overload=schema.overload_name,
        arguments=tuple(_argument(argument) for argument in schema.arguments),
        results=tuple(str(result.type) for result in schema.returns),
        mutates=any(item.alias_info is not None for item in (*schema.arguments, *schema.returns)),
        dissolves=torch._C._dispatch_has_kernel_for_dispatch_key(
            qualified, "CompositeImplicitAutograd"
        ),
        schema=str(schema),
    )


def _argument(argument: Any) -> Argument:
    written = str(argument.real_type)
    optional = written.startswith("Optional[")
    if optional:
        written = written.removeprefix("Optional[").removesuffix("]")
    return Argument(
        name=argument.name,
        kind=_KINDS.get(written, "other"),
        optional=optional,
        keyword_only=argument.kwarg_only,
        has_default=argument.has_default_value(),
        default=argument.default_value,
    )


def names(arguments: Sequence[Argument]) -> list[str]:
    return [argument.name for argument in arguments]
