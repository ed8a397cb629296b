"""Linking: insert each module that a recorded graph refers to once.

A graph that runs holds a computation for every call of a composite. A graph that is only recorded
holds a reference instead, a custom call that names the module. For an export, a composite then
costs no more than any other instruction.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from lowering.emission import hlo_proto
from lowering.emission.builder import as_module, calling, renumber

_PREFIX = "composites.module."


def module_name(module: bytes) -> str:
    """The name of a module in references. Equal modules have the same name."""
    return f"{_PREFIX}{hashlib.sha256(module).hexdigest()}"


def is_reference(instruction: Any) -> bool:
    """Return whether an HLO instruction is a reference to a module."""
    return str(instruction.custom_call_target).startswith(_PREFIX)


def reference(module: bytes) -> bytes:
    """A module with the same signature as `module` that contains only a reference to it."""
    entry = hlo_proto.entry_computation(hlo_proto.Module.FromString(module))
    return as_module(
        calling(
            "reference",
            entry.program_shape,
            opcode="custom-call",
            custom_call_target=module_name(module),
        )
    )


def link(graph: Any, modules: Mapping[str, bytes]) -> list[Any]:
    """The computations of a graph in which references are replaced by calls of modules.

    Args:
        graph: HLO module (protobuf). Its messages are reused.
        modules: serialized modules by name. They may refer to each other.

    Returns:
        Computations of the modules and the graph, callees first.
    """
    linker = _Linker(modules, 1 + max(computation.id for computation in graph.computations))
    linker.add(graph.computations)
    return linker.computations


class _Linker:
    def __init__(self, modules: Mapping[str, bytes], next_id: int) -> None:
        self.modules = modules
        self.next_id = next_id
        self.computations: list[Any] = []
        self._entries: dict[str, int] = {}
        """The id of each module's entry computation."""

    def add(self, computations: Iterable[Any]) -> None:
        """Add computations, each after the modules that it refers to."""
        for computation in computations:
            for instruction in computation.instructions:
                if is_reference(instruction):
                    self._call(instruction)
            self.computations.append(computation)

    def _call(self, instruction: Any) -> None:
        """Turn a reference into a call."""
        # Fields that only custom calls have must not stay: where calls are not inlined, jaxlib's
        # converter (0.10.2 and 0.11.2) ends the process if it reads such a field.
        call = hlo_proto.Instruction(
            name=instruction.name,
            opcode="call",
            id=instruction.id,
            operand_ids=instruction.operand_ids,
            called_computation_ids=[self._entry_id(instruction.custom_call_target)],
        )
        for field in ("shape", "metadata", "sharding", "frontend_attributes"):
            if instruction.HasField(field):
                getattr(call, field).CopyFrom(getattr(instruction, field))
        instruction.CopyFrom(call)

    def _entry_id(self, name: str) -> int:
        if name not in self._entries:
            module = hlo_proto.Module.FromString(self.modules[name])
            entry = hlo_proto.entry_computation(module)
            self.next_id = renumber(module.computations, self.next_id)
            self._entries[name] = entry.id
            self.add(module.computations)
        return self._entries[name]
