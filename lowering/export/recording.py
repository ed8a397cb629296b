"""One recording of a module: traced, lowered to StableHLO, and named.

an `ExportRequest`
    -> `Traced`: the tensors that are inputs and outputs
    -> `Program`: the StableHLO of the outputs; then with names and the shardings of inputs and
       outputs
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from glob import escape
from typing import Any

import torch

from composites.errors import ExportError
from lowering.export.manifest import Value
from lowering.export.partitioning import annotation
from lowering.export.program import Program
from lowering.export.request import ExportRequest
from lowering.export.shardings import input_specs, output_spec
from lowering.export.tracing import model_name, move_graph, names_device, nothing_kept, trace
from lowering.stablehlo import (
    Pass,
    rename_decompositions,
    rename_module,
    run_passes,
    unshare_decompositions,
)
from lowering.stablehlo.passes.annotate_shardings import marks


def record(request: ExportRequest, *, located: bool = False) -> Program:
    """Record the module of a request.

    Args:
        located: True to give operations locations; see `Recording.lower_graph`.

    Raises:
        ExportError: the module cannot be recorded.
    """
    module = request.module
    if isinstance(module, torch.export.ExportedProgram) or names_device(module):
        module = move_graph(module, request.frontend.tensors)
    with nothing_kept(request.frontend, module):
        traced = trace(
            request.frontend,
            module,
            request.args,
            request.kwargs,
            train=request.train,
            optimizer=request.optimizer,
            shared=request.mesh is not None,
        )
        lowered = traced.lower(located=located)
    inputs, outputs = _sharded(lowered, traced.marks, request)
    name = model_name(request.module)  # the graph of an ExportedProgram has a class of torch.fx
    cleaning: list[Pass] = [rename_decompositions, partial(rename_module, name=name)]
    if not request.share_decompositions:
        cleaning.insert(0, unshare_decompositions)
    if request.mesh is None:
        for _, mark in marks(lowered.module.ir):
            raise ExportError(
                f"the module marks a value as {mark}; pass the mesh of this mark as mesh="
            )
    else:
        cleaning.append(annotation(inputs, outputs, request.mesh, request.sharding_form))
    cleaned = run_passes(lowered.module, cleaning, verify=False)
    return Program(cleaned, inputs, outputs, request.mesh)


def _sharded(
    lowered: Program, marks: Mapping[str, str], request: ExportRequest
) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Inputs and outputs with their shardings.

    Args:
        marks: the shardings that torch_xla's `mark_sharding` has recorded, by input.
    """
    inputs, outputs, mesh = lowered.inputs, lowered.outputs, request.mesh
    if mesh is None:
        if marks:
            name, mark = next(iter(marks.items()))
            raise ExportError(f"{name} is marked as {mark}; pass the mesh of this mark as mesh=")
        return inputs, outputs
    shapes = {value.name: value.sizes for value in inputs}
    marked: dict[str, Any] = {}
    for name, mark in marks.items():
        if name in shapes:
            marked[name] = mesh.parse_spec(mark, len(shapes[name]))
            if marked[name] is None:
                raise ExportError(f"{name} is marked as {mark}, which does not divide the mesh")
    patterns = {escape(n): s for n, s in marked.items()} | dict(request.shardings)
    specs = input_specs(mesh, patterns, shapes)
    return (
        tuple(replace(value, sharding=specs.get(value.name)) for value in inputs),
        tuple(
            replace(value, sharding=output_spec(value.name, value.updates, specs))
            for value in outputs
        ),
    )
