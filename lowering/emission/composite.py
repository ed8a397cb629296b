"""Wrapping a decomposition's HLO module as one composite.

The input is the HLO of a decomposition, whose entry computation returns a tuple of results. The
output is a module whose entry is one `call` with `is_composite=true`. When the module is inserted
into a graph, XLA turns this call into `stablehlo.composite`. XLA inlines the call if no compiler
claims the composite.

A graph holds a copy of the module for every call, so the module's size costs time in training.
Dead instructions, instructions that XLA would simplify away and computations without callers are
dropped, and so are fields that XLA does not need, see `compact`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from composites.attribute_types import dictionary
from lowering.emission import hlo_proto
from lowering.emission.batch_norms import expand_batch_norms
from lowering.emission.builder import insertable
from lowering.emission.dependence import drop_dead, reachable
from lowering.emission.numbers import put_numbers
from lowering.emission.products import fold_transposes, separate_batch_dimensions
from lowering.emission.simplify import inline_calls, simplify
from lowering.emission.sums import merge_sums
from lowering.emission.types import DecompositionHlo, TensorType


@dataclass(frozen=True, slots=True)
class CompositeHlo:
    """A composite that is ready to be inserted into a graph."""

    module: bytes
    results: tuple[TensorType, ...]


class ForeignParameterError(ValueError):
    """The decomposition reads a tensor that is not an operand of the composite."""


def emit_composite(
    name: str,
    version: int,
    attributes: Mapping[str, str | None],
    operands: Sequence[TensorType],
    decomposition: DecompositionHlo,
    *,
    guard_products: bool = False,
    keep_roundings: bool = False,
    is_shared: bool = False,
    is_partitioned: bool = False,
) -> CompositeHlo:
    """Wrap a decomposition.

    Args:
        name: the composite's name, `namespace.name`.
        version: the composite's version.
        attributes: MLIR text by name, see `composites.attribute_types`.
        operands: types of the operands, in the composite's order; the seed comes last, if any.
        decomposition: HLO whose entry computation returns a tuple.
        guard_products: put an optimization barrier after a composite that contains a product from
            bf16 to f32. XLA:CPU (jaxlib 0.7.1 to 0.12.0, torch_xla 2.9) rejects such a product if
            it fuses a transpose of the result into it. XLA:CPU does not fuse across a barrier.
        keep_roundings: see `separate_batch_dimensions`.
        is_shared: several devices share the graph. Batch norms are written as sums and elementwise
            operations, sums over the same dimensions as one, and products read no transposes.
        is_partitioned: a partitioner may divide the graph among devices, each use of a value in its
            own way. Products over merged batch dimensions are then written over separate
            dimensions; XLA fuses the two forms differently, so the last bits can differ. Equal
            values stay. Otherwise the graph runs, and holds a copy of the module for every call, so
            this function simplifies it. `lowering.hlo` simplifies a recorded graph as a whole.

    Raises:
        ForeignParameterError: a parameter of the decomposition is not an operand.
    """
    source = hlo_proto.Module.FromString(decomposition.module)
    by_id = {computation.id: computation for computation in source.computations}
    body = hlo_proto.entry_computation(source)

    inline_calls(body, by_id)
    norms = expand_batch_norms(body, 1 + max(by_id)) if is_shared else []
    by_id |= {computation.id: computation for computation in norms}
    if is_shared:
        inline_calls(body, by_id)
        merge_sums(body, by_id)
    if is_partitioned:
        separate_batch_dimensions(body, keep_roundings=keep_roundings)
    if is_shared:
        fold_transposes(body)
    put_numbers(body, decomposition.numbers, hidden=decomposition.hides_numbers)
    _return_results(body)
    seed = () if decomposition.seed is None else (decomposition.seed,)
    _take_operands(body, operands, (*decomposition.parameters, *seed))
    computations = [*norms, *source.computations]  # in XLA's order, callers come last
    if is_partitioned:
        drop_dead(body)
    else:
        simplify(body)
    reached = reachable(body.id, by_id)
    kept = [c for c in computations if c.id in reached]
    body.name = f"{name}.impl"
    written = {
        "composite.attributes": dictionary(attributes),
        "composite.name": name,
        "composite.version": str(version),
    }
    guarded = guard_products and any(map(_has_wide_product, kept))
    caller = _caller(name, body, written, guarded=guarded)
    caller.id = 1 + max(reached)
    module = hlo_proto.Module(computations=[*kept, caller], entry_computation_id=caller.id)
    result = body.program_shape.result
    results = result.tuple_shapes if result.element_type == hlo_proto.TUPLE else [result]
    return CompositeHlo(insertable(module), tuple(map(_tensor_type, results)))


def _caller(name: str, body: Any, attributes: Mapping[str, str], *, guarded: bool) -> Any:
    """A computation (protobuf) that calls another one as a composite.

    Args:
        attributes: the frontend attributes of the call.
        guarded: add a barrier after the call.
    """
    types = body.program_shape
    made = hlo_proto.Computation(name=name, program_shape=types)
    for number, shape in enumerate(types.parameters):
        made.instructions.add(opcode="parameter", id=number, parameter_number=number, shape=shape)
    call = len(types.parameters)
    made.instructions.add(
        opcode="call",
        id=call,
        operand_ids=range(call),
        shape=types.result,
        called_computation_ids=[body.id],
        is_composite=True,
        frontend_attributes={"map": [{"key": k, "value": v} for k, v in attributes.items()]},
    )
    made.root_id = call
    if guarded:
        made.root_id = call + 1
        made.instructions.add(
            opcode="opt-barrier", id=call + 1, operand_ids=[call], shape=types.result
        )
    return made


def _instruction(computation: Any, instruction_id: int) -> Any:
    return next(item for item in computation.instructions if item.id == instruction_id)


def _return_results(body: Any) -> None:
    """If there is only one result, make the entry return the result itself instead of a 1-tuple."""
    root = _instruction(body, body.root_id)
    if root.opcode != "tuple" or len(root.operand_ids) != 1:
        return
    result = _instruction(body, root.operand_ids[0])
    body.root_id = result.id
    body.program_shape.result.CopyFrom(result.shape)


def _take_operands(
    body: Any, operands: Sequence[TensorType], parameters: Sequence[int | None]
) -> None:
    """Number the parameters like the operands, and add those that the decomposition does not
    read."""
    by_number = {i.parameter_number: i for i in body.instructions if i.opcode == "parameter"}
    foreign = [by_number[number] for number in by_number if number not in parameters]
    if foreign:
        shapes = ", ".join(str(_tensor_type(instruction.shape)) for instruction in foreign)
        raise ForeignParameterError(
            f"the decomposition reads data that is not an operand ({shapes}); make constants from"
            " numbers, as with torch.full, not from tensors"
        )
    free_id = max(instruction.id for instruction in body.instructions) + 1
    for position, (operand, number) in enumerate(zip(operands, parameters, strict=True)):
        if number is None:
            body.instructions.add(
                opcode="parameter",
                id=free_id + position,
                parameter_number=position,
                shape=hlo_proto.array_shape(operand.element_type, operand.shape),
            )
        else:
            by_number[number].parameter_number = position
    items = (item for item in body.instructions if item.opcode == "parameter")
    ordered = sorted(items, key=lambda item: item.parameter_number)
    body.program_shape.ClearField("parameters")
    body.program_shape.parameters.extend(instruction.shape for instruction in ordered)


def _has_wide_product(computation: Any) -> bool:
    types = {item.id: item.shape.element_type for item in computation.instructions}
    narrow, wide = hlo_proto.PRIMITIVE_TYPES["bf16"], hlo_proto.PRIMITIVE_TYPES["f32"]
    return any(
        item.opcode == "dot" and types[item.id] == wide and types[item.operand_ids[0]] == narrow
        for item in computation.instructions
    )


def _tensor_type(shape: Any) -> TensorType:
    name = hlo_proto.ELEMENT_TYPE_NAMES.get(shape.element_type, f"type {shape.element_type}")
    return TensorType(name, tuple(shape.dimensions))
