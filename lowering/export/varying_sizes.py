"""Recording of programs whose sizes vary.

dimensions -> symbols -> one recording, which is the program for all sizes of 2 or more
    -> if a size may be 1, compared with a recording at size 1
"""

from collections.abc import Mapping
from dataclasses import replace

from composites.errors import CompositesError, ExportError
from lowering.export.dynamic_shapes import DynamicArguments
from lowering.export.program import Program
from lowering.export.recording import record
from lowering.export.request import ExportRequest
from lowering.stablehlo import DynamicSizeError, Module, RunError, program_difference, refine
from lowering.stablehlo.bindings import find_operations, string_value


def record_for_sizes(request: ExportRequest, arguments: DynamicArguments) -> Program:
    """Record the program of a request for all sizes.

    Raises:
        ExportError: the module is a different program at some sizes, or the frontend does not
            support sizes that vary.
    """
    dimensions = arguments.dimensions
    bounds = {d.name: (max(d.min, 2), d.max) for d in dimensions}
    with request.frontend.recording.symbolic(bounds) as sizes:
        program = _recorded(request, arguments, sizes)
    read = {size for value in program.inputs for size in value.shape}
    unknown = next((d.name for d in dimensions if d.name not in read), None)
    if unknown is not None:
        raise ExportError(
            f"dynamic_shapes: the program reads no argument with the dimension {unknown}, so it"
            " cannot know its size; keep it fixed"
        )
    _check_refinable(program.module)
    # PyTorch broadcasts dimensions of size 1, and may leave them out.
    single = [d.name for d in dimensions if d.min == 1]
    trials = [[name] for name in single] + ([single] if len(single) > 1 else [])
    larger = {
        d.name: d.max if d.max is not None and d.max < 3 else max(d.min, 3) for d in dimensions
    }
    for names in trials:
        if not _holds_at(program.module, request, arguments, larger | dict.fromkeys(names, 1)):
            dimensions = tuple(
                replace(d, min=2) if d.name in names and d.min == 1 else d for d in dimensions
            )
    return replace(program, dimensions=dimensions)


def _check_refinable(module: Module) -> None:
    """Raise `ExportError` for operations that JAX writes as custom calls where sizes vary, such as
    random numbers. StableHLO's passes that choose sizes do not know these custom calls."""
    for call in find_operations(module.ir.operation, "stablehlo.custom_call"):
        if any("?" in str(result.type) for result in call.results):
            name = string_value(call.attributes["call_target_name"])
            raise ExportError(
                f"dynamic_shapes: a size of {name.removeprefix('stablehlo.dynamic_')} would vary,"
                " and the passes that choose sizes do not know this operation; keep the dimension"
                " fixed"
            )


def _recorded(
    request: ExportRequest, arguments: DynamicArguments, sizes: Mapping[str, int]
) -> Program:
    args, kwargs = arguments.at(sizes)
    return record(replace(request, args=args, kwargs=kwargs))


def _holds_at(
    module: Module, request: ExportRequest, arguments: DynamicArguments, sizes: Mapping[str, int]
) -> bool:
    """Return whether the program gives the same numbers as a recording at `sizes`."""
    try:
        recorded = _recorded(request, arguments, sizes)
        refined = refine(module, [value.type for value in recorded.inputs])
        return program_difference(refined, recorded.module) is None
    except (CompositesError, DynamicSizeError, RunError):
        return False
    except Exception:  # of the module's own code
        return False
