"""Composites as operators of `torch.library`, in the graphs of other compilers.

    ptxla::gelu.v1(Tensor[] operands, *, str? approximate=None) -> Tensor[]

The name is the composite's, and the overload its version. Operands and results are those of the
`stablehlo.composite`; its attributes are keywords. Attributes that have no type in PyTorch's
schemas are text, as MLIR writes them.

An operator computes the decomposition, in PyTorch's operators. A call whose attributes differ in
type from those of the first call, or whose decomposition differs from that of an equal call, as
with `fast`, has one more overload: `v1_2`.
"""

import re
import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from composites.attribute_types import dictionary
from composites.errors import CompositesError
from composites.torch_internals import storage_key
from lowering.frontends.aten_in_jax.dtypes import torch_dtype
from lowering.frontends.fx.graph import FxComposite
from lowering.frontends.tensor_types import DTYPE_OF
from lowering.stablehlo.attributes import to_python
from lowering.stablehlo.bindings import building, ir, new_context
from lowering.stablehlo.run import enable_x64

_Types = Sequence[tuple[Sequence[int], torch.dtype]]
"""Shapes and dtypes of tensors."""


@dataclass(frozen=True, slots=True)
class _Meaning:
    """The meaning of calls with equal attributes, and operands of equal types."""

    decomposition: torch.fx.GraphModule
    results: _Types

    def is_same(self, graph: torch.fx.GraphModule) -> bool:
        """Return whether another decomposition has the same code and constants."""
        pairs = zip(self.decomposition.buffers(), graph.buffers(), strict=False)
        return self.decomposition.code == graph.code and all(torch.equal(*pair) for pair in pairs)


@dataclass(frozen=True, slots=True)
class _Operator:
    """An overload of an operator, and its kernels."""

    name: str
    schema: str
    """The schema of the attributes."""
    calls: dict[Hashable, _Meaning] = field(default_factory=dict)

    def define(self, library: torch.library.Library) -> None:
        keywords = f", *, {self.schema}" if self.schema else ""
        schema = f"{self.name}(Tensor[] operands{keywords}) -> Tensor[]"
        library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        library.impl(self.name, self._computed, "CompositeExplicitAutograd")
        library.impl(self.name, self._described, "Meta")

    def _computed(
        self, operands: Sequence[torch.Tensor], **attributes: Any
    ) -> Sequence[torch.Tensor]:
        results: list[torch.Tensor] = []
        # The results of an operator share no memory with its operands, or with each other.
        shared = set(map(storage_key, operands))
        for tensor in self._call(operands, attributes).decomposition(*operands):
            if not tensor.is_contiguous() or storage_key(tensor) in shared:
                tensor = tensor.clone(memory_format=torch.contiguous_format)
            results.append(tensor)
            shared.add(storage_key(tensor))
        return results

    def _described(
        self, operands: Sequence[torch.Tensor], **attributes: Any
    ) -> Sequence[torch.Tensor]:
        types = self._call(operands, attributes).results
        return [torch.empty(shape, dtype=dtype, device="meta") for shape, dtype in types]

    def _call(self, operands: Sequence[torch.Tensor], attributes: Mapping[str, Any]) -> _Meaning:
        types = [(tuple(tensor.shape), tensor.dtype) for tensor in operands]
        call = self.calls.get(_key(types, attributes))
        if call is None:
            raise CompositesError(
                f"{self.name} runs only with operands and attributes of a graph of"
                f" composites.wrap, not with {types} and {dict(attributes)}"
            )
        return call


def _key(types: _Types, attributes: Mapping[str, Any]) -> Hashable:
    named = sorted((name, repr(value)) for name, value in attributes.items() if value is not None)
    return tuple(types), tuple(named)


_LOCK = threading.Lock()
_libraries: dict[str, torch.library.Library] = {}
_operators: dict[tuple[str, str], list[_Operator]] = {}
"""The overloads of one name and version, by namespace and `name.v1`."""


def register_operator(
    composite: FxComposite, decomposition: torch.fx.GraphModule
) -> tuple[Any, Mapping[str, Any]]:
    """The operator of a composite, and the keywords of its call.

    Args:
        decomposition: the composite as a function of its operands.
    """
    kind = composite.kind
    attributes = _in_python(dict(kind.attributes))
    schema = ", ".join(f"{_type(value)}? {name}=None" for name, value in attributes.items())
    with enable_x64():  # so that JAX keeps 64-bit types
        operands = [(tuple(aval.shape), torch_dtype(aval.dtype)) for aval in kind.jaxpr.in_avals]
    results = [(t.shape, DTYPE_OF[t.element_type]) for t in composite.results]
    key = _key(operands, attributes)
    namespace, _, name = kind.name.partition(".")
    namespace, name = (re.sub(r"\W", "_", part) for part in (namespace, name))
    overload = f"v{kind.version}"
    with _LOCK:
        overloads = _operators.setdefault((namespace, f"{name}.{overload}"), [])
        for operator in overloads:
            call = operator.calls.get(key)
            if operator.schema == schema and (call is None or call.is_same(decomposition)):
                break
        else:
            suffix = f"_{len(overloads) + 1}" if overloads else ""
            operator = _Operator(f"{name}.{overload}{suffix}", schema)
            if namespace not in _libraries:
                _libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")
            operator.define(_libraries[namespace])
            overloads.append(operator)
        operator.calls[key] = _Meaning(decomposition, results)
    packet = getattr(getattr(torch.ops, namespace), name)
    return getattr(packet, operator.name.partition(".")[2]), attributes


def _in_python(attributes: Mapping[str, str]) -> dict[str, Any]:
    """Attributes as Python values, by names that are valid in a schema."""
    with building(new_context()):
        parsed = to_python(ir().Attribute.parse(dictionary(attributes)))
    values = {}
    for name, value in parsed.items():
        plain = list(value) if isinstance(value, tuple) else value
        is_text = _type(plain) == "str" and not isinstance(plain, str)
        values[re.sub(r"\W", "_", name)] = attributes[name] if is_text else plain
    return values


_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}


def _type(value: Any) -> str:
    """The type of an attribute in a schema."""
    if not isinstance(value, list):
        return _TYPES.get(type(value), "str")
    kinds = {type(item) for item in value} or {int}
    item = _TYPES.get(kinds.pop(), "") if len(kinds) == 1 else ""
    return f"{item}[]" if item else "str"
