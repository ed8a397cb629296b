"""Products that a partitioner can divide: over separate batch dimensions, and of whole matrices.

PyTorch multiplies stacks of matrices, such as the heads of attention, with three dimensions: it
merges batch and heads in a reshape, and splits them again afterwards. XLA's partitioner cannot keep
the sharding of a dimension that is merged after another one, so tensor parallelism gathers both
operands of every such product on each device. Without the merge, the partitioner gathers nothing:

    merged = f32[8,16,8] reshape(f32[2,4,16,8])        dot(f32[2,4,16,8], f32[2,4,8,16]),
    product = dot(merged, …), lhs_batch_dims={0}   =>      lhs_batch_dims={0,1}
    f32[2,4,16,16] reshape(product)

The numbers that are multiplied and added are the same, and so is their order.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from lowering.emission import hlo_proto
from lowering.stablehlo.passes.products import merges


def separate_batch_dimensions(body: Any, *, keep_roundings: bool) -> None:
    """Rewrite, in place, the products of a computation (protobuf) whose operands merge dimensions.

    Instructions that nothing uses any more stay. A computation without such a product is not
    changed.

    Args:
        body: the computation.
        keep_roundings: leave products of a narrow floating-point type as they are. XLA:CPU
            (torch_xla 2.9) computes them in f32, and leaves out the rounding of a result that the
            next instruction widens. The reshape after a product over merged dimensions prevents
            this.
    """
    if not any(map(_is_batched_dot, body.instructions)):
        return
    separation = _Separation(body, keep_roundings=keep_roundings)
    for instruction in body.instructions:  # operands come before their users
        separation.rewrite(instruction)
    if not separation.has_products:
        return
    root = separation.renamed.get(body.root_id, body.root_id)
    body.ClearField("instructions")
    body.instructions.extend(separation.instructions)
    body.root_id = root


class _Separation:
    """The instructions of a computation, with merged values also in the form before the merge."""

    def __init__(self, body: Any, *, keep_roundings: bool) -> None:
        self._keep_roundings = keep_roundings
        self.instructions: list[Any] = []
        self.renamed: dict[int, int] = {}
        """For a replaced value: the id of the value that replaces it."""
        self.has_products = False
        self._by_id: dict[int, Any] = {}
        self._unmerged: dict[int, int] = {}
        """For a value whose first dimension is a merge: the id of the value before the merge."""
        self._ids: Iterator[int] = count(1 + max(item.id for item in body.instructions))

    def rewrite(self, original: Any) -> None:
        """Add a copy of an instruction, or replace it by a product over separate dimensions."""
        instruction = hlo_proto.Instruction()
        instruction.CopyFrom(original)
        for ids in (instruction.operand_ids, instruction.control_predecessor_ids):
            ids[:] = [self.renamed.get(i, i) for i in ids]
        unmerged = [self._unmerged.get(i) for i in instruction.operand_ids]
        opcode = instruction.opcode
        if opcode == "reshape":
            self._reshape(instruction, unmerged[0])
        elif _is_batched_dot(instruction):
            self._dot(instruction, unmerged)
        else:
            self._add(instruction)
            if unmerged and unmerged[0] is not None and _keeps_first_dimension(instruction):
                self._follow(instruction, self._by_id[unmerged[0]])

    def _add(self, instruction: Any) -> None:
        self.instructions.append(instruction)
        self._by_id[instruction.id] = instruction

    def _new(self, like: Any, operands: Sequence[int | None], dimensions: Sequence[int]) -> Any:
        """A copy of an instruction with other operands and a shape of other dimensions."""
        made = hlo_proto.Instruction()
        made.CopyFrom(like)
        made.id = next(self._ids)
        made.operand_ids[:] = operands
        name = hlo_proto.ELEMENT_TYPE_NAMES[like.shape.element_type]
        made.shape.CopyFrom(hlo_proto.array_shape(name, dimensions))
        return made

    def _reshape(self, instruction: Any, unmerged: int | None) -> None:
        dimensions = list(instruction.shape.dimensions)
        if unmerged is not None and list(self._by_id[unmerged].shape.dimensions) == dimensions:
            self.renamed[instruction.id] = unmerged
            return
        self._add(instruction)
        if _merges(self._by_id[instruction.operand_ids[0]].shape, instruction.shape):
            self._unmerged[instruction.id] = instruction.operand_ids[0]

    def _follow(self, instruction: Any, source: Any) -> None:
        """Apply the same instruction to the value before the merge."""
        extra = len(source.shape.dimensions) - len(instruction.shape.dimensions)
        leading = list(source.shape.dimensions[: extra + 1])
        made = self._new(instruction, [source.id], [*leading, *instruction.shape.dimensions[1:]])
        if instruction.dimensions:
            rest = [dimension + extra for dimension in instruction.dimensions[1:]]
            made.dimensions[:] = [*range(extra + 1), *rest]
        self._add(made)
        self._unmerged[instruction.id] = made.id

    def _dot(self, instruction: Any, unmerged: Sequence[int | None]) -> None:
        leading = self._leading(instruction, unmerged)
        if leading is None:
            self._add(instruction)
            return
        extra = len(leading) - 1
        made = self._new(instruction, unmerged, [*leading, *instruction.shape.dimensions[1:]])
        numbers = made.dot_dimension_numbers
        for batch in (numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions):
            batch[:] = range(extra + 1)
        for contracted in (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions):
            contracted[:] = [dimension + extra for dimension in contracted]
        self._add(made)
        merged = hlo_proto.Instruction(
            opcode="reshape", id=instruction.id, operand_ids=[made.id], shape=instruction.shape
        )
        self._add(merged)
        self._unmerged[instruction.id] = made.id
        self.has_products = True

    def _leading(self, dot: Any, unmerged: Sequence[int | None]) -> list[int] | None:
        """Dimensions that both operands of a product merge; None if the product stays as it is."""
        result = dot.shape.element_type
        if self._keep_roundings and result in hlo_proto.NARROW_FLOATS:
            return None
        # torch_xla's CPU runtime refuses products with a wider result and several batch dimensions.
        if any(self._by_id[i].shape.element_type != result for i in dot.operand_ids):
            return None
        leading = []
        for merged, before in zip(dot.operand_ids, unmerged, strict=True):
            if before is None:
                return None
            old, new = (self._by_id[i].shape.dimensions for i in (before, merged))
            leading.append(list(old[: len(old) - len(new) + 1]))
        left, right = leading
        return left if left == right else None


def _is_batched_dot(instruction: Any) -> bool:
    numbers = instruction.dot_dimension_numbers
    return instruction.opcode == "dot" and (
        list(numbers.lhs_batch_dimensions) == list(numbers.rhs_batch_dimensions) == [0]
    )


def _merges(before: Any, after: Any) -> bool:
    is_dynamic = any(before.is_dynamic_dimension)
    return not is_dynamic and merges(list(before.dimensions), list(after.dimensions))


def _keeps_first_dimension(instruction: Any) -> bool:
    """Return whether an instruction of one operand leaves the first dimension where it is."""
    dimensions = list(instruction.dimensions)
    if instruction.opcode == "transpose":
        return bool(dimensions[0] == 0)
    return bool(instruction.opcode == "convert")


def fold_transposes(body: Any) -> None:
    """Rewrite, in place, the products of a computation (protobuf) that read the transposes of
    matrices, or of stacks of matrices. Transposes that nothing uses any more stay.

        transposed = f32[64,128] transpose(weight: f32[128,64])
        dot(x, transposed), rhs_contracting_dims={0}  =>  dot(x, weight), rhs_contracting_dims={1}

    XLA does the same, but after its partitioner, which gathers a matrix and its transpose
    separately. A backward that computes a product again needs both: a linear layer multiplies by
    the transpose of its weight, and the gradient of its input by the weight itself.
    """
    by_id = {item.id: item for item in body.instructions}
    for item in body.instructions:
        numbers = item.dot_dimension_numbers
        if item.opcode != "dot":
            continue
        for position, contracted, batch in (
            (0, numbers.lhs_contracting_dimensions, numbers.lhs_batch_dimensions),
            (1, numbers.rhs_contracting_dimensions, numbers.rhs_batch_dimensions),
        ):
            operand = by_id[item.operand_ids[position]]
            if operand.opcode == "transpose" and _is_of_matrices(operand, batch):
                item.operand_ids[position] = operand.operand_ids[0]
                contracted[:] = [operand.dimensions[dimension] for dimension in contracted]


def _is_of_matrices(transpose: Any, batch: Sequence[int]) -> bool:
    """Return whether a transpose exchanges the last two dimensions, and the others are a batch."""
    order = list(transpose.dimensions)
    matrix = len(order) - 2
    stays = list(range(matrix))
    return order == [*stays, matrix + 1, matrix] and list(batch) == stays
