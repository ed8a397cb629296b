"""A graph of AOTAutograd as a program of XLA, called with PyTorch's tensors."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Any

import torch

from composites import torch_internals
from lowering import activation, interrupts
from lowering.export.step import with_kernels
from lowering.frontends.fx import capture
from lowering.frontends.jax.internals import free_released_arrays
from lowering.frontends.protocols import LoweredGraph
from lowering.live.cached_attention import read_caches_as_they_are
from lowering.live.checks import GraphChecks
from lowering.live.chosen_kernels import select_kernels
from lowering.live.compilations import Compilations, in_own_thread
from lowering.live.devices import Devices, GraphInput
from lowering.live.exchange import remember_copy, to_torch
from lowering.live.input_names import name_of_source
from lowering.live.kept_state import kept_tensors
from lowering.live.options import Options
from lowering.live.owned_memory import OwnedMemory, owned_memory, with_owned_memory, writing
from lowering.live.replay import GraphReplay, states_of_generators
from lowering.live.saved import save_graph
from lowering.live.strides import Order, in_memory_order, in_own_order, memory_order
from lowering.live.views import views_among
from lowering.live.writes import return_parts
from lowering.stablehlo.bindings import find_operations
from lowering.stablehlo.errors import RunError
from lowering.stablehlo.run import enable_x64, import_jax
from lowering.stablehlo.symbols import CUSTOM_CALL

_STATE = torch.empty((), dtype=torch.int64, device="meta")
"""The type of a program's operand for the state of the random number generator."""


class LiveProgram:
    """A compiled graph. It is called with a list of the graph's inputs, which it empties."""

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        inputs: Sequence[Any],
        devices: Devices,
        options: Options,
        *,
        returned: int | None,
        written: Sequence[int] = (),
        check_every: int = 0,
    ) -> None:
        """Lower a graph, put kernels in place of composites, and compile.

        Args:
            inputs: for each input of the graph, a fake tensor, or a number.
            devices: run the program.
            options: the user's options.
            returned: the number of results that are returned. The rest is saved for the backward;
                None for a graph that is not a forward.
            written: the inputs to which the caller writes the first results.
            check_every: the number of calls from a check of kernels to the next; 0 for no checks.

        Raises:
            NoKernelError: an operator has no rule in JAX.
            ValueReadError: the graph reads the value of a tensor.
            RunError: XLA cannot compile a program that has one form.
        """
        self._operands = [n for n, x in enumerate(inputs) if isinstance(x, torch.Tensor)]
        self._count = len(graph.graph.output_node().args[0])  # type: ignore[arg-type]
        # A kept input on other devices gets all its values there; other inputs can get parts.
        self._written = [] if devices.mesh is None else list(written)
        is_part = devices.mesh is None and returned is None
        self._writes = return_parts(graph.graph, written) if is_part else {}
        outputs: Any = graph.graph.output_node().args[0]
        placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        # Inputs that autograd saves are returned as they are; XLA would copy them.
        self._passed = {
            n: placeholders.index(node)
            for n, node in enumerate(outputs)
            if node in placeholders and n >= len(self._written)
        }
        self._views = views_among(placeholders, outputs)
        self._returned = len(outputs) if returned is None else returned
        can_own = is_part and devices.platform == "cpu"
        self._in_place = {
            n: position
            for n, position in enumerate(written if can_own else ())
            if position not in self._writes and n not in self._passed and n not in self._views
        }
        """For results that can take an input's memory: the position of the input."""
        self._devices = devices
        if devices.mesh is not None:
            # Views share PyTorch's memory, which values saved on a mesh do not have.
            self._views = {
                n: view
                for n, view in self._views.items()
                if len(self._written) <= n < self._returned
                and (view.is_of_input or view.position < self._returned)
            }
        described = [_described(node, x) for node, x in zip(placeholders, inputs, strict=True)]
        self._orders = orders = [None if x is None else x.order for x in described]
        is_backward = any(node.name.startswith("tangents") for node in placeholders)
        self._to_jax = devices.inputs(described, is_backward=is_backward)
        results, lowered = self._lowered(graph, inputs, orders)
        self._results = self._computed(outputs, results)
        self._constants = [None if isinstance(x, torch.Tensor) else x for x in results]
        self._parameters = [
            None if parameter.operand is None else self._operands[parameter.operand]
            for parameter in lowered.parameters
        ]
        operands = {position: operand for operand, position in enumerate(self._parameters)}
        self._in_place = {n: p for n, p in self._in_place.items() if p in operands}
        self._saved_inputs = {
            n: (position, operands[position], orders[position])
            for n, position in self._passed.items()
            if devices.mesh is not None and n >= self._returned and position in operands
        }
        if options.save is not None:
            names = [placeholders[position].name for position in self._operands]
            kind = "forward" if returned is not None else "inference"
            kind = "backward" if is_backward else kind
            save_graph(lowered, names, [n for n, _ in self._results], kind, options.save)
        # With several devices, no alternative was measured.
        alternatives = options.kernels == "auto" and not devices.are_several
        module = lowered.module
        if self._writes and alternatives and devices.platform == "cpu":
            module = read_caches_as_they_are(module)
        self.kernels = with_kernels(
            module,
            select_kernels(options.kernels, module),
            None,
            devices.platform,
            alternatives=alternatives,
        )
        if find_operations(self.kernels.module.ir, CUSTOM_CALL):
            self._in_place = {}  # a kernel that fails would leave inputs without values
        self._compilations = Compilations(
            self.kernels.module,
            devices,
            [parameter.type for parameter in lowered.parameters],
            self._results,
            operand_by_result={n: operands[position] for n, position in self._in_place.items()},
            cache=options.cache,
        )
        if not self._in_place and not is_backward:  # otherwise the first call chooses a form
            self._compilations.compiled()
        self._checks = GraphChecks.create(self.kernels, devices.platform, check_every)

    def _lowered(
        self, graph: torch.fx.GraphModule, inputs: Sequence[Any], orders: Sequence[Order]
    ) -> tuple[list[Any], LoweredGraph]:
        """Lower the graph to StableHLO, and return its results (traced tensors, numbers and None)
        with it."""
        frontend = activation.backend().frontend
        recording = frontend.recording
        with ExitStack() as contexts:
            contexts.enter_context(capture.at_top())
            contexts.enter_context(recording.recording(shared=self._devices.are_several))
            states = states_of_generators(graph.graph)
            operands: list[torch.Tensor] = []
            lent: list[Any] = []
            placeholders = graph.graph.find_nodes(op="placeholder")
            for node, x, order in zip(placeholders, inputs, orders, strict=True):
                if not isinstance(x, torch.Tensor):
                    lent.append(x)
                    continue
                like = _STATE if node in states else in_memory_order(x, order)
                operands.append(frontend.tensors.placeholder(like))
                # Its strides are the user's.
                capture.traced(operands[-1]).node.meta[capture.REORDERED] = True
                # A graph may write to its inputs; the placeholder stays the input.
                lent.append(in_own_order(operands[-1], order).clone())
            with torch_internals.below_autograd():
                replay = GraphReplay(graph)
                results = list(replay.run(*lent))
            self._offsets = replay.offsets
            outputs: Any = graph.graph.output_node().args[0]
            computed = [
                in_memory_order(results[n], order) for n, order in self._computed(outputs, results)
            ]
            return results, recording.lower_graph(computed, operands)

    def _computed(self, outputs: Sequence[Any], results: Sequence[Any]) -> list[tuple[int, Order]]:
        """The positions of the results that XLA computes, and the order of their dimensions in
        eager PyTorch. Inputs and views are not computed."""
        return [
            (n, self._result_order(n, node.meta.get("val", x)))
            for n, (node, x) in enumerate(zip(outputs, results, strict=True))
            if isinstance(x, torch.Tensor) and n not in self._passed and n not in self._views
        ]

    def _result_order(self, n: int, like: torch.Tensor) -> Order:
        position = self._in_place.get(n)
        return memory_order(like) if position is None else self._orders[position]

    def _arrays(self, inputs: Sequence[Any], memories: Mapping[int, OwnedMemory]) -> list[Any]:
        """The operands of the program; None for absent gradients."""
        owned = {self._in_place[n]: memory.array for n, memory in memories.items()}

        def read_array(position: int | None) -> Any:
            if position is None:
                return self._devices.array(_seed())
            if position in owned:
                return owned[position]
            tensor = inputs[position]
            return None if tensor is None else self._to_jax(position, tensor)

        return [read_array(position) for position in self._parameters]

    def _owned_memory(self, inputs: Sequence[Any]) -> dict[int, OwnedMemory]:
        """The memory that results of an optimizer's step can take, by the results' positions."""
        memories = {
            n: owned_memory(inputs[position], self._orders[position], self._devices.home)
            for n, position in self._in_place.items()
        }
        owned = {n: memory for n, memory in memories.items() if memory is not None}
        if not self._compilations.compiled(owned).can_fail:
            return owned
        self._in_place = {}
        return {}

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Run once.

        Raises:
            RunError: the storage offset of an input differs from that at compilation, or XLA cannot
                compile a form of the program, in its first call.
        """
        for position, offset in self._offsets.items():
            if inputs[position].storage_offset() != offset:
                raise RunError(
                    "a graph with `as_strided` of an input was compiled for the storage offset"
                    f" {offset}, and got an input with {inputs[position].storage_offset()}; call"
                    " `contiguous()` or `clone()` before"
                )
        devices = self._devices
        writes_parameters = any(
            isinstance(inputs[position], torch.nn.Parameter) for position in self._in_place.values()
        )
        with enable_x64(), writing if writes_parameters else nullcontext():
            memories = self._owned_memory(inputs) if writes_parameters else {}
            arrays = self._arrays(inputs, memories)
            passed = {n: inputs[position] for n, position in self._passed.items()}
            for n, (position, operand, order) in self._saved_inputs.items():
                # A device of the mesh may share the input's memory, so writes to it are counted.
                tensor = inputs[position]
                passed[n] = remember_copy(tensor, arrays[operand], order, source=tensor)
            passed |= {
                n: None if inputs[view.position] is None else view.apply_to(inputs[view.position])
                for n, view in self._views.items()
                if view.is_of_input
            }
            changed = {position: inputs[position] for position in self._writes}
            written = {n: inputs[position] for n, position in enumerate(self._written)}
            in_place = {n: inputs[self._in_place[n]] for n in memories}
            inputs.clear()
            zeros = [operand for operand, array in enumerate(arrays) if array is None]
            arrays = [array for array in arrays if array is not None]
            if not self._compilations.has_room(memories, zeros):
                arrays, zeros = self._compilations.with_zeros(arrays, zeros), []
            if self._checks is not None:
                self._checks.count(self._compilations.with_zeros(arrays, zeros))
            program = self._compilations.compiled(memories, zeros)
            # An interrupt would leave inputs without memory.
            with interrupts.deferred() if writes_parameters else nullcontext():
                run = partial(in_own_thread, program.run) if writes_parameters else program.run
                computed = run(*arrays)
                for (n, _), array in zip(program.results, computed, strict=True):
                    if n in memories:
                        memories[n].take(in_place[n], array)
            import_jax().block_until_ready(computed[-1:])  # all results are ready together
            arrays.clear()
            free_released_arrays()
            results: list[Any] = list(self._constants)
            for n, value in passed.items():
                results[n] = value
            kept = kept_tensors(written)
            returned = []
            for (n, order), array in zip(program.results, computed, strict=True):
                if n in in_place:
                    results[n] = in_place[n]
                elif n in kept:
                    kept[n].write(written[n], array, order)
                    results[n] = written[n]
                elif n < self._returned:
                    returned.append((n, order, array))
                else:
                    results[n] = devices.saved(array, order)
            at_home = devices.at_home([array for _, _, array in returned])
            make_tensor = with_owned_memory if writes_parameters else to_torch
            for (n, order, _), array in zip(returned, at_home, strict=True):
                results[n] = make_tensor(array, order)
        for n, view in self._views.items():
            if not view.is_of_input:
                results[n] = view.apply_to(results[view.position])
        for part in self._writes.values():
            for n in (part.result, part.index):
                if n in self._passed or n in self._views:  # perhaps of an input that is written to
                    results[n] = results[n].clone()
        for position, part in self._writes.items():
            part.write(changed[position], results)
            results[part.result] = changed[position]
        return results[: self._count]


def _described(node: torch.fx.Node, x: Any) -> GraphInput | None:
    if not isinstance(x, torch.Tensor):
        return None
    source = node.meta.get(torch_internals.SOURCE)
    name = name_of_source(source) if source else None
    return GraphInput(name, memory_order(x), tuple(x.shape))


def _seed() -> torch.Tensor:
    """A new state of the random number generator, drawn from PyTorch's own."""
    limits = torch.iinfo(torch.int64)
    return torch.randint(limits.min, limits.max, (), dtype=torch.int64, device="cpu")
