"""A program whose sizes vary, made from recordings of a module at several sizes.

dimensions -> sizes to record at -> one program each -> the program for all sizes
    -> checked at large sizes, and where a size may be 1 at a recording of that
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from composites.errors import CompositesError, ExportError
from lowering.export.dimensions import Dimension
from lowering.export.dynamic_shapes import DynamicArguments, large_sizes, recorded_sizes
from lowering.export.manifest import Value
from lowering.export.recording import Recorded
from lowering.stablehlo import (
    DynamicSizeError,
    Module,
    Recording,
    RunError,
    generalize,
    program_difference,
    refine,
    type_difference,
)

Record = Callable[[Sequence[Any], Mapping[str, Any]], Recorded]
"""Records a module with these arguments and keyword arguments."""


@dataclass(frozen=True)
class Varying:
    """A program for all sizes of its dimensions."""

    module: Module
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    dimensions: tuple[Dimension, ...]


def program_for_sizes(record: Record, arguments: DynamicArguments) -> Varying:
    """Record a module at several sizes, and make one program of the recordings.

    Raises:
        ExportError: the module fails at a size, it is a different program at some sizes, or a size
            cannot be computed. The message names the operation.
    """
    dimensions = arguments.dimensions
    chosen = recorded_sizes(dimensions)
    recorded = [_recorded(record, arguments, sizes) for sizes in chosen]
    first, *others = recorded
    for sizes, other in zip(chosen[1:], others, strict=True):
        here, there = _names(first), _names(other)
        if here != there:
            # A name that only one has says more than another place or update.
            name, what = min(here.keys() ^ there.keys() or here.keys())
            raise ExportError(
                f"the program is a different one at {_text(chosen[0])} than at {_text(sizes)}"
                f" ({what} {name}); the module must run the same operators at all sizes, so remove"
                " what depends on the size, or keep the dimension fixed"
            )
    try:
        general = generalize(
            [Recording(r.module, s) for r, s in zip(recorded, chosen, strict=True)]
        )
        result = Varying(
            general.module,
            tuple(replace(v, shape=s) for v, s in zip(first.inputs, general.inputs, strict=True)),
            tuple(replace(v, shape=s) for v, s in zip(first.outputs, general.outputs, strict=True)),
            dimensions,
        )
        _check(result, recorded[-1], _text(chosen[-1]))
        # A module may cut off what is too long, which small sizes do not show.
        large = large_sizes(dimensions)
        if any(size > sizes[name] for name, size in large.items() for sizes in chosen):
            _check(result, _recorded(record, arguments, large), _text(large))
    except DynamicSizeError as error:
        hint = ""
        if error.composite is not None:
            entry = error.composite.rpartition(".")[2]
            hint = f", or turn that composite off, as in ops=['all', '-{entry}']"
        raise ExportError(f"dynamic_shapes: {error}{hint}") from error
    # Recordings of size 1 have other operations: PyTorch broadcasts, and leaves out dimensions.
    single = [d for d in dimensions if d.min == 1]
    trials = [{d.name: 1} for d in single]
    trials += [{d.name: 1 for d in single}] if len(single) > 1 else []
    for ones in trials:
        if not _holds_at(result.module, record, arguments, {**chosen[0], **ones}):
            result = replace(
                result,
                dimensions=tuple(
                    replace(d, min=2) if d.name in ones and d.min == 1 else d
                    for d in result.dimensions
                ),
            )
    return result


def _recorded(record: Record, arguments: DynamicArguments, sizes: Mapping[str, int]) -> Recorded:
    args, kwargs = arguments.at(sizes)
    try:
        return record(args, kwargs)
    except CompositesError as error:
        raise type(error)(f"at {_text(sizes)}: {error}") from error
    except Exception as error:  # the module's own
        raise ExportError(
            f"the module fails at {_text(sizes)}: {type(error).__name__}: {error}; use one"
            " Dim for dimensions that are equal, and give bounds of the sizes that it takes, as in"
            " Dim('seq', min=8, max=512)"
        ) from error


def _names(recorded: Recorded) -> dict[tuple[str, str], tuple[int, str]]:
    """Places and updates of inputs and outputs, by name and kind."""
    return {
        (value.name, kind): (place, value.updates or "")
        for kind, values in (("input", recorded.inputs), ("output", recorded.outputs))
        for place, value in enumerate(values)
    }


def _check(result: Varying, recorded: Recorded, sizes: str) -> None:
    """Raise if the program, refined to the sizes of a recording, has not its composites and
    results."""
    module = refine(result.module, [value.type for value in recorded.inputs])
    differing = type_difference(module, recorded.module)
    if differing:
        raise DynamicSizeError(
            f"the program is a different one at {sizes} than at the sizes below ({differing}); give"
            " a largest size, as in Dim('seq', max=…), or keep the dimension fixed"
        )


def _holds_at(
    module: Module, record: Record, arguments: DynamicArguments, sizes: Mapping[str, int]
) -> bool:
    """Whether the program has the numbers of a recording at these sizes."""
    try:
        recorded = _recorded(record, arguments, sizes)
        refined = refine(module, [value.type for value in recorded.inputs])
        return program_difference(refined, recorded.module) is None
    except (ExportError, DynamicSizeError, RunError):
        return False


def _text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())
