"""Programs of several devices: what StableHLO says about it, and running one on a jax mesh.

XLA's partitioner divides the program, and jax's runtime runs it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from composites.errors import ExportError, ProgramError
from lowering.export.manifest import Value
from lowering.export.shardings import DeviceMesh, Form, Spec
from lowering.stablehlo import Module, Pass, RunError, annotate_shardings, jax_function
from lowering.stablehlo.dtypes import numpy_dtype
from lowering.stablehlo.run import enable_x64


def annotation(
    inputs: Sequence[Value], outputs: Sequence[Value], mesh: DeviceMesh, form: Form
) -> Pass:
    """The pass that writes shardings. Values without a sharding are left to the partitioner.

    It raises ExportError if a mark on a value inside is not a division of the mesh.
    """
    texts = [
        [None if v.sharding is None else mesh.text(v.sharding, form) for v in values]
        for values in (inputs, outputs)
    ]
    of_mesh = mesh.shardy if form == "shardy" else None

    def inside(text: str, rank: int) -> str:
        spec = mesh.spec_of(text, rank)
        if spec is None:
            raise ExportError(f"the module marks a value as {text}, which does not divide the mesh")
        return mesh.text(spec, form)

    return partial(
        annotate_shardings, inputs=texts[0], results=texts[1], mesh=of_mesh, inside=inside
    )


def check_mesh(mesh: Any, described: DeviceMesh | None) -> None:
    """Raise if this is not a `jax.sharding.Mesh` with the axes of the program's mesh."""
    from jax.sharding import Mesh

    if described is None:
        raise ProgramError(
            "the program has no shardings for several devices; export it with mesh= and shardings="
        )
    if not isinstance(mesh, Mesh):
        raise ProgramError(
            "mesh must be a jax.sharding.Mesh, such as"
            f" jax.make_mesh({described.sizes}, {described.names}), not {mesh!r}"
        )
    if dict(mesh.shape) != dict(described.axes):
        raise ProgramError(
            f"the mesh has the axes {dict(mesh.shape)}, and the program"
            f" {dict(described.axes)}; make a mesh with the program's axes"
        )


def sharding_on(mesh: Any, spec: Spec | None) -> Any:
    """jax's sharding of a value with a spec. A value without one is whole on every device."""
    from jax.sharding import NamedSharding, PartitionSpec

    parts = [axes or None for axes in spec or ()]
    return NamedSharding(mesh, PartitionSpec(*parts))


def without_shardings(
    module: Module, inputs: Sequence[Value], outputs: Sequence[Value], mesh: DeviceMesh
) -> Module:
    """The module for jit, which has its own form of annotations of inputs and results: that of the
    partitioner in use. Marks inside are GSPMD's."""
    written = annotation(inputs, outputs, mesh, "gspmd")(module)
    return annotate_shardings(written, inputs=[None] * len(inputs), results=[None] * len(outputs))


def platform_of(device: Any) -> str:
    """The platform of a device, as `jax_function` names it."""
    if device.platform != "gpu":
        return str(device.platform)
    # jax tells AMD's GPUs apart in the same way.
    return "rocm" if "rocm" in device.client.platform_version else "cuda"


def placed(value: Value, array: Any, sharding: Any) -> Any:
    """An array on the devices of a sharding.

    Raises:
        RunError: it has another shape or dtype than the input.
    """
    import jax

    shape, dtype = tuple(np.shape(array)), np.dtype(array.dtype)
    if (shape, dtype) != (value.shape, numpy_dtype(value.dtype)):
        raise RunError(
            f"input {value.name} is {value.type}, got an array of shape {shape} and dtype {dtype}"
        )
    if isinstance(array, jax.Array) and array.sharding == sharding:
        return array
    # Each process has the whole array, and places the parts of its own devices.
    whole = np.asarray(array)
    return jax.make_array_from_callback(shape, sharding, lambda part: whole[part])


def divided(
    module: Module,
    described: DeviceMesh,
    inputs: tuple[Value, ...],
    outputs: tuple[Value, ...],
    mesh: Any,
) -> Callable[..., list[Any]]:
    """A program for one mesh, as a function of whole arrays, or jax arrays, in the order of the
    inputs. It is compiled at the first call.

    Args:
        described: the mesh that the shardings of inputs and outputs refer to.
        mesh: a `jax.sharding.Mesh` with its axes; see `check_mesh`. A value without a sharding is
            whole on every device.
    """
    import jax

    shardings = tuple(sharding_on(mesh, value.sharding) for value in inputs)
    step = jax.jit(
        jax_function(
            without_shardings(module, inputs, outputs, described),
            platform=platform_of(mesh.devices.flat[0]),
        ),
        in_shardings=shardings,
        out_shardings=tuple(sharding_on(mesh, value.sharding) for value in outputs),
    )

    def run(*arrays: Any) -> list[Any]:
        with enable_x64():
            on_devices = list(map(placed, inputs, arrays, shardings))
            try:
                return list(jax.block_until_ready(step(*on_devices)))
            except (RuntimeError, ValueError) as error:
                raise RunError(f"the program failed on the mesh: {error}") from error

    return run
