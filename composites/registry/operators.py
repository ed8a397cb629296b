"""PyTorch's operator schemas as frozen values, read with PyTorch's own schema parser."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from composites import torch_internals
from composites.attribute_types import ArgumentKind
from composites.errors import did_you_mean

# Kinds by argument type, as a schema prints the type (torch.Argument.real_type in torch 2.9).
_KINDS: dict[str, ArgumentKind] = {
    "Tensor": "tensor", "List[Tensor]": "tensors", "List[Optional[Tensor]]": "optional_tensors",
    "int": "int", "float": "float", "bool": "bool", "str": "string", "number": "scalar",
    "List[int]": "ints", "List[float]": "floats", "List[bool]": "bools", "ScalarType": "dtype",
}  # fmt: skip

# The type hint in generated hooks for each kind of argument.
ANNOTATIONS: dict[ArgumentKind, str] = {
    "tensor": "Tensor", "tensors": "list[Tensor]", "optional_tensors": "list[Tensor | None]",
    "int": "int", "float": "float", "bool": "bool", "string": "str", "scalar": "Number",
    "ints": "list[int]", "floats": "list[float]", "bools": "list[bool]", "dtype": "torch.dtype",
    "other": "Any",
}  # fmt: skip


TENSOR_LIST = "List[Tensor]"
"""The type of a result that is a list, as a schema prints it."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an operator."""

    name: str
    kind: ArgumentKind
    optional: bool
    """True if None is allowed."""
    keyword_only: bool
    has_default: bool
    default: Any = None

    @property
    def is_tensor(self) -> bool:
        return self.kind == "tensor"

    @property
    def is_list(self) -> bool:
        """True if the argument is a list of tensors, each of which is an operand."""
        return self.kind == "tensors"


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator overload."""

    name: str
    """`aten::gelu`, without the overload."""
    overload: str
    """The name of the overload; empty for the default overload."""
    arguments: tuple[Argument, ...]
    results: tuple[str, ...]
    """Types of the results, as the schema prints them."""
    mutates: bool
    """True if the operator writes to an argument or returns a view of one."""
    implicit_autograd: bool
    """True if PyTorch decomposes the operator (CompositeImplicitAutograd) before the call reaches a
    backend."""
    schema: str

    @property
    def qualified(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def adds_a_dimension(self) -> bool:
        """True if the argument `dim` can be a dimension that only the result has."""
        return self.qualified in ("aten::stack", "aten::unsqueeze_copy")

    @property
    def tensors(self) -> tuple[Argument, ...]:
        """The arguments that can be operands: tensors and lists of tensors."""
        return tuple(a for a in self.arguments if a.is_tensor or a.is_list)

    @property
    def returns_list(self) -> bool:
        """True if the number of results depends on the call."""
        return self.results == (TENSOR_LIST,)

    @property
    def tensor_positions(self) -> tuple[tuple[int, str], ...]:
        """The positions and names of the tensors among the positional arguments."""
        positional = (argument for argument in self.arguments if not argument.keyword_only)
        return tuple((n, a.name) for n, a in enumerate(positional) if a.is_tensor)

    def argument(self, name: str) -> Argument | None:
        return next((argument for argument in self.arguments if argument.name == name), None)


class UnknownOperatorError(LookupError):
    """PyTorch does not have the operator or overload."""

    def __init__(self, message: str, unknown: str = "") -> None:
        super().__init__(message)
        self._unknown = unknown

    def hint(self) -> str:
        """Return `did_you_mean` with the closest of 2,000 names, which takes about 30 ms."""
        if not self._unknown:
            return ""
        return did_you_mean(self._unknown, torch_internals.operator_names())


@cache
def find_operator(text: str) -> Operator:
    """Find the operator named `aten::name` or `aten::name.overload`.

    Raises:
        UnknownOperatorError: its `hint` has the closest match, or the message has the overloads
            that exist.
    """
    name, _, overload = text.partition(".")
    schemas = torch_internals.schemas_of(name)
    if not schemas:
        advice = "; the function of a package's entry point imports the module that registers it"
        known = f"PyTorch has no operator {name}" + ("" if name.startswith("aten::") else advice)
        raise UnknownOperatorError(known, name)
    by_overload = {schema.overload_name: schema for schema in schemas}
    if overload not in by_overload:
        names = ", ".join(f"{name}.{key}" if key else name for key in sorted(by_overload))
        raise UnknownOperatorError(
            f"operator {name} has no {f'overload {overload}' if overload else 'default overload'}"
            f" (known: {names})"
        )
    return _operator(by_overload[overload])


def find_in_place(operator: Operator) -> Operator | None:
    """Find the in-place form of an operator, `name_`, which writes the only result to the first
    argument. None if there is none."""
    for schema in torch_internals.schemas_of(f"{operator.name}_"):
        other = _operator(schema)
        same = (other.overload, other.arguments[1:]) == (operator.overload, operator.arguments[1:])
        firsts = (*other.arguments[:1], *operator.arguments[:1])
        if same and all(argument.is_tensor for argument in firsts) and len(operator.results) == 1:
            return other
    return None


def overload(name: str) -> Any:
    """Return the overload `aten::add.Tensor`, or the default overload of `aten::gelu`."""
    namespace, _, rest = name.partition("::")
    plain, _, kind = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), plain), kind or "default")


def _operator(schema: Any) -> Operator:
    qualified = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    return Operator(
        name=schema.name,
        overload=schema.overload_name,
        arguments=tuple(_argument(argument) for argument in schema.arguments),
        results=tuple(str(result.type) for result in schema.returns),
        mutates=any(item.alias_info is not None for item in (*schema.arguments, *schema.returns)),
        implicit_autograd=torch_internals.is_implicit_autograd(qualified),
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
