"""link: the modules that a recorded graph names, put into it once each.

A graph that runs holds a computation for every call of a composite. One that is only recorded need
not: it is inserted as a reference, a custom call that names the module, and an export costs no more
for it than for any other instruction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from lowering.emission import hlo_proto

_PREFIX = "composites.module."


def name_of(module: bytes) -> str:
    """What a reference to a module says: equal modules have one name."""
    return f"{_PREFIX}{hashlib.sha256(module).hexdigest()}"


def reference(module: bytes) -> bytes:
    """A module with the signature of another, that has nothing in it but its name."""
    referred = hlo_proto.Module.FromString(module)
    entry = hlo_proto.entry_of(referred)
    computation = hlo_proto.Computation(name="reference.1", id=1, program_shape=entry.program_shape)
    parameters = [item for item in entry.instructions if item.opcode == "parameter"]
    parameters.sort(key=lambda item: item.parameter_number)
    for place, parameter in enumerate(parameters):
        computation.instructions.add(
            name="p.1",
            opcode="parameter",
            id=2 + place,
            parameter_number=place,
            shape=parameter.shape,
        )
    computation.root_id = 2 + len(parameters)
    computation.instructions.add(
        name="r.1",
        opcode="custom-call",
        id=computation.root_id,
        operand_ids=range(2, computation.root_id),
        custom_call_target=name_of(module),
        shape=entry.program_shape.result,
    )
    written: bytes = hlo_proto.Module(
        name=computation.name,
        entry_computation_name=computation.name,
        entry_computation_id=computation.id,
        id=computation.id,
        host_program_shape=computation.program_shape,
        computations=[computation],
    ).SerializeToString(deterministic=True)
    return written


def link(graph: Any, modules: Mapping[str, bytes]) -> list[Any]:
    """The computations of a graph, with calls of modules in place of references to them.

    Args:
        graph: HLO module (protobuf), whose messages are taken over.
        modules: serialized modules by name; they may refer to each other.

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
        """The computation that each module starts with."""

    def add(self, computations: Iterable[Any]) -> None:
        """Add computations, after those that they refer to."""
        meant: dict[int, int] = {}
        for computation in computations:
            name = _refers_to(computation)
            if name is not None:
                meant[computation.id] = self._entry_of(name)
                continue
            for instruction in computation.instructions:
                if instruction.opcode == "custom-call":
                    self._call(instruction)
                elif instruction.opcode == "call":
                    called = instruction.called_computation_ids
                    called[:] = [meant.get(i, i) for i in called]
            self.computations.append(computation)

    def _call(self, instruction: Any) -> None:
        """Make a reference in the midst of a decomposition a call."""
        name = instruction.custom_call_target
        if name.startswith(_PREFIX):
            instruction.opcode = "call"
            instruction.ClearField("custom_call_target")
            instruction.called_computation_ids[:] = [self._entry_of(name)]

    def _entry_of(self, name: str) -> int:
        if name not in self._entries:
            module = hlo_proto.Module.FromString(self.modules[name])
            ids = {c.id: self.next_id + n for n, c in enumerate(module.computations)}
            self.next_id += len(ids)
            self._entries[name] = ids[hlo_proto.entry_of(module).id]
            for computation in module.computations:
                computation.id = ids[computation.id]
                computation.name = f"{hlo_proto.stem(computation.name)}.{computation.id}"
                for instruction in computation.instructions:
                    called = instruction.called_computation_ids
                    called[:] = [ids[i] for i in called]
            self.add(module.computations)
        return self._entries[name]


def _refers_to(computation: Any) -> str | None:
    """The module that a computation, which is nothing but a reference, stands for."""
    *others, root = computation.instructions
    name: str = root.custom_call_target
    if not name.startswith(_PREFIX) or any(item.opcode != "parameter" for item in others):
        return None
    return name
