"""Programs for several devices: shardings in StableHLO, and running a program on a jax mesh.

XLA's partitioner divides the program, and jax's runtime runs it.
"""

from collections.abc import Callable, Mapping, Sequence
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
    """Make the pass that writes shardings. The partitioner divides values without a sharding. The
    pass raises ExportError if a mark on a value inside does not divide the mesh.
    """
    texts = [
        [None if v.sharding is None else mesh.text(v.sharding, form) for v in values]
        for values in (inputs, outputs)
    ]
    mesh_attribute = mesh.shardy if form == "shardy" else None

    def inside(text: str, rank: int) -> str:
        spec = mesh.parse_spec(text, rank)
        if spec is None:
            raise ExportError(f"the module marks a value as {text}, which does not divide the mesh")
        return mesh.text(spec, form)

    return partial(
        annotate_shardings, inputs=texts[0], results=texts[1], mesh=mesh_attribute, inside=inside
    )


def check_mesh(mesh: Any, described: DeviceMesh | None) -> DeviceMesh:
    """The program's mesh, after a check that `mesh` is a `jax.sharding.Mesh` with its axes.

    Raises:
        ProgramError: it is not.
    """
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
    return described


def sharding_on(mesh: Any, spec: Spec | None) -> Any:
    """jax's sharding of a value with a spec. A value without a spec is on every device."""
    from jax.sharding import NamedSharding, PartitionSpec

    parts = [axes or None for axes in spec or ()]
    return NamedSharding(mesh, PartitionSpec(*parts))


def without_shardings(
    module: Module, inputs: Sequence[Value], outputs: Sequence[Value], mesh: DeviceMesh
) -> Module:
    """The module for jit, which annotates inputs and results itself, in the form of the partitioner
    in use. Marks inside are GSPMD's."""
    written = annotation(inputs, outputs, mesh, "gspmd")(module)
    return annotate_shardings(written, inputs=[None] * len(inputs), results=[None] * len(outputs))


def platform_name(device: Any) -> str:
    """The platform of a device, by the name under which jax has started its client: `cuda`, where
    the device says `gpu`. A PJRT plug-in may call itself otherwise, even `cpu`."""
    from jax.extend.backend import backends

    clients: Mapping[str, Any] = backends()
    named = (name for name, client in clients.items() if client is device.client)
    return next(named, str(device.platform))


def placed(value: Value, array: Any, sharding: Any) -> Any:
    """Put an array on the devices of a sharding.

    Raises:
        RunError: the array has another shape or dtype than the input.
    """
    import jax

    shape, dtype = tuple(np.shape(array)), np.dtype(array.dtype)
    if (shape, dtype) != (value.shape, numpy_dtype(value.dtype)):
        raise RunError(
            f"input {value.name} is {value.type}, got an array of shape {shape} and dtype {dtype}"
        )
    if isinstance(array, jax.Array) and array.sharding == sharding:
        return array
    # Each process has the complete array, and puts the parts for its own devices on them.
    complete = np.asarray(array)
    return jax.make_array_from_callback(shape, sharding, lambda part: complete[part])


def divided(
    module: Module,
    described: DeviceMesh,
    inputs: tuple[Value, ...],
    outputs: tuple[Value, ...],
    mesh: Any,
) -> Callable[..., list[Any]]:
    """A program for one mesh, as a function of complete arrays, or jax arrays, in the order of the
    inputs. The program is compiled at the first call.

    Args:
        described: the mesh that the shardings of inputs and outputs refer to.
        mesh: a `jax.sharding.Mesh` with its axes; see `check_mesh`. A value without a sharding is
            replicated on every device.
    """
    import jax

    shardings = tuple(sharding_on(mesh, value.sharding) for value in inputs)
    step = jax.jit(
        jax_function(
            without_shardings(module, inputs, outputs, described),
            platform=platform_name(mesh.devices.flat[0]),
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
