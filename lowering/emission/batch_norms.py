"""Batch norms become sums and elementwise operations, which a partitioner can divide.

torch_xla lowers layer norm, group norm and instance norm to `batch-norm-training` and
`batch-norm-grad`. XLA's partitioner leaves these whole on each device, and gathers their operands.
The operations that they stand for are those of XLA's own expander, in its order
(xla/service/batchnorm_expander.cc); sums over a dimension that is divided are then summed over the
devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from lowering.emission import hlo_proto

_TRAINING, _GRADIENT = "batch-norm-training", "batch-norm-grad"
_WIDE = {hlo_proto.PRIMITIVE_TYPES[name]: np.dtype(dtype) for name, dtype in
         (("f32", np.float32), ("f64", np.float64))}  # fmt: skip


def expand_batch_norms(body: Any, free_id: int) -> list[Any]:
    """Rewrite, in place, the batch norms of a computation (protobuf) in f32 and f64.

    Args:
        body: the computation.
        free_id: from here on, no computation has these ids.

    Returns:
        The computations that it calls now, which add two numbers.
    """
    if not any(item.opcode in (_TRAINING, _GRADIENT) for item in body.instructions):
        return []
    expansion = _Expansion(body, free_id)
    for instruction in list(body.instructions):
        expansion.place(instruction)
    body.ClearField("instructions")
    body.instructions.extend(expansion.instructions)
    return list(expansion.sums.values())


class _Expansion:
    """The instructions of a computation, with batch norms expanded."""

    def __init__(self, body: Any, free_id: int) -> None:
        self.instructions: list[Any] = []
        self._free_id = free_id
        self._by_id = {item.id: item for item in body.instructions}
        self._free = 1 + max(self._by_id)
        self.sums: dict[int, Any] = {}
        """The computation that adds two numbers, by element type."""

    def place(self, instruction: Any) -> None:
        if instruction.opcode not in (_TRAINING, _GRADIENT):
            self.instructions.append(instruction)
            return
        operands = [self._by_id[number] for number in instruction.operand_ids]
        if operands[0].shape.element_type not in _WIDE:
            self.instructions.append(instruction)
            return
        norm = _Norm(self, operands[0], instruction)
        results = norm.training(*operands) if instruction.opcode == _TRAINING else norm.gradient(
            *operands
        )  # fmt: skip
        self.instructions.append(
            hlo_proto.Instruction(
                opcode="tuple",
                id=instruction.id,
                operand_ids=[result.id for result in results],
                shape=instruction.shape,
            )
        )

    def new(self, opcode: str, operands: Sequence[Any], shape: Any, **fields: Any) -> Any:
        made = hlo_proto.Instruction(
            opcode=opcode,
            id=self._free,
            operand_ids=[operand.id for operand in operands],
            shape=shape,
            **fields,
        )
        self._free += 1
        self.instructions.append(made)
        return made

    def sum_of_two(self, element_type: int) -> int:
        """The computation that adds two numbers."""
        if element_type not in self.sums:
            scalar = hlo_proto.array_shape(hlo_proto.ELEMENT_TYPE_NAMES[element_type], ())
            made = hlo_proto.Computation(name="sum.1", id=self._free_id + len(self.sums))
            for place in (0, 1):
                made.instructions.add(
                    opcode="parameter", id=place + 1, parameter_number=place, shape=scalar
                )
            made.instructions.add(opcode="add", id=3, operand_ids=[1, 2], shape=scalar)
            made.root_id = 3
            made.program_shape.parameters.extend([scalar, scalar])
            made.program_shape.result.CopyFrom(scalar)
            self.sums[element_type] = made
        return int(self.sums[element_type].id)


class _Norm:
    """One batch norm: values of the shape of its operand, and of its features."""

    def __init__(self, expansion: _Expansion, operand: Any, norm: Any) -> None:
        self._expansion = expansion
        self._feature = int(norm.feature_index)
        self._type = operand.shape.element_type
        self._dtype = _WIDE[self._type]
        sizes = list(operand.shape.dimensions)
        name = hlo_proto.ELEMENT_TYPE_NAMES[self._type]
        self._full = operand.shape
        self._features = hlo_proto.array_shape(name, [sizes[self._feature]])
        self._scalar = hlo_proto.array_shape(name, [])
        self._others = [place for place in range(len(sizes)) if place != self._feature]
        self._count = prod(sizes[place] for place in self._others)
        self._epsilon = float(norm.epsilon)

    def training(self, x: Any, scale: Any, offset: Any) -> tuple[Any, Any, Any]:
        """The normalized operand, its mean and its biased variance."""
        count = self._spread(self._number(self._count), self._features)
        mean = self._of("divide", self._sum(x), count)
        mean_of_squares = self._of("divide", self._sum(self._of("multiply", x, x)), count)
        variance = self._of("subtract", mean_of_squares, self._of("multiply", mean, mean))
        centered = self._of("subtract", x, self._full_of(mean))
        normed = self._of("multiply", centered, self._reciprocal_root(variance))
        scaled = self._of("multiply", normed, self._full_of(scale))
        return self._of("add", scaled, self._full_of(offset)), mean, variance

    def gradient(
        self, x: Any, scale: Any, mean: Any, variance: Any, grad: Any
    ) -> tuple[Any, Any, Any]:
        """The gradients of operand, scale and offset."""
        centered = self._of("subtract", x, self._full_of(mean))
        of_offset = self._sum(grad)
        products = self._sum(self._of("multiply", grad, centered))
        epsilon = self._number(self._epsilon)
        wide = self._of("add", variance, self._spread(epsilon, self._features))
        root = self._expansion.new("rsqrt", [wide], self._features)
        of_scale = self._of("multiply", products, root)
        whole = self._of("add", self._full_of(variance), self._spread(epsilon, self._full))
        count = self._number(self._count)
        first = self._of("multiply", grad, self._spread(count, self._full))
        third = self._of("multiply", self._full_of(products), centered)
        third = self._of("divide", third, whole)
        rest = self._of("subtract", first, self._full_of(of_offset))
        rest = self._of("subtract", rest, third)
        factor = self._of("multiply", self._full_of(scale), self._reciprocal_root(variance))
        factor = self._of("divide", factor, self._spread(count, self._full))
        return self._of("multiply", factor, rest), of_scale, of_offset

    def _reciprocal_root(self, variance: Any) -> Any:
        epsilon = self._spread(self._number(self._epsilon), self._full)
        wide = self._of("add", self._full_of(variance), epsilon)
        return self._expansion.new("rsqrt", [wide], self._full)

    def _of(self, opcode: str, one: Any, other: Any) -> Any:
        return self._expansion.new(opcode, [one, other], one.shape)

    def _sum(self, of_operand: Any) -> Any:
        return self._expansion.new(
            "reduce",
            [of_operand, self._number(0)],
            self._features,
            dimensions=self._others,
            called_computation_ids=[self._expansion.sum_of_two(self._type)],
        )

    def _full_of(self, of_features: Any) -> Any:
        """A value for each feature, in the shape of the operand."""
        return self._expansion.new(
            "broadcast", [of_features], self._full, dimensions=[self._feature]
        )

    def _spread(self, number: Any, shape: Any) -> Any:
        return self._expansion.new("broadcast", [number], shape)

    def _number(self, value: float) -> Any:
        literal = hlo_proto.literal(np.array(value, self._dtype), self._scalar)
        return self._expansion.new("constant", [], self._scalar, literal=literal)
