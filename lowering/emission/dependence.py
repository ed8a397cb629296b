"""What the results of a decomposition depend on."""

from __future__ import annotations

from lowering.emission import hlo_proto
from lowering.emission.simplify import simplify


def parameters_read(module: bytes) -> frozenset[int]:
    """The numbers of the parameters on whose values a result of a serialized module depends.

    A graph of torch_xla also has the parameters that operators read for results that nobody uses,
    as the moving averages of a batch norm are.
    """
    entry = hlo_proto.entry_of(hlo_proto.Module.FromString(module))
    simplify(entry)
    used = {entry.root_id, *(n for item in entry.instructions for n in item.operand_ids)}
    return frozenset(
        item.parameter_number
        for item in entry.instructions
        if item.opcode == "parameter" and item.id in used
    )
