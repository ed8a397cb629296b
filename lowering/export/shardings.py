"""The dimensions of inputs and outputs that a mesh of devices divides. Does not need torch.

A mesh has named axes. A spec names, for each dimension, the axes that divide it, as do
`jax.sharding.PartitionSpec` and torch_xla's `partition_spec`:

    mesh {"data": 2, "model": 4}, weight 16x8, spec ("model", None)
        =>  four groups of two devices; each group has 4 of the 16 rows

XLA's older partitioner (GSPMD) reads such a division as text, `{devices=[4,1,2]<=[2,4]T(1,0)
last_tile_dim_replicate}` (HloSharding in xla/hlo/ir/hlo_sharding.h), which JAX writes and reads;
the newer partitioner (Shardy) as `#sdy.sharding<@mesh, [{"model"}, {}]>`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from typing import Any, Literal

from composites.errors import ExportError, did_you_mean

Spec = tuple[tuple[str, ...], ...]
"""The axes of each dimension, the outermost first."""
Form = Literal["gspmd", "shardy"]

LISTED = 8
"""The number of inputs that a message names."""

_BRACES = re.compile(r"\{([^{}]*)\}")
_QUOTED = re.compile(r'"([^"]*)"')


@dataclass(frozen=True, slots=True)
class DeviceMesh:
    """Devices in a grid with named axes, in the order of their numbers."""

    axes: tuple[tuple[str, int], ...]
    """Names and sizes."""

    @classmethod
    def from_mesh(cls, mesh: Any) -> "DeviceMesh":
        """A mesh from a mapping of names to sizes, a mesh of jax, or one of torch_xla.

        Raises:
            ExportError: `mesh` is of another type, has an axis without a name or a size, or has
                devices in another order.
        """
        if isinstance(mesh, DeviceMesh):
            return mesh
        sizes = mesh if isinstance(mesh, Mapping) else getattr(mesh, "shape", None)
        if hasattr(mesh, "mesh_shape"):  # a mesh of torch_xla, which has a method `shape`
            if list(mesh.device_ids) != sorted(mesh.device_ids):
                raise ExportError("the devices of the mesh must be in the order of their numbers")
            sizes = dict(zip(mesh.axis_names or (), mesh.mesh_shape, strict=False))
        if not isinstance(sizes, Mapping) or not sizes:
            raise ExportError(
                "mesh: write names and sizes of its axes, such as {'data': 2, 'model': 4}, or pass"
                f" a mesh of jax or torch_xla whose axes have names, not {mesh!r}"
            )
        for name, size in sizes.items():
            if not (isinstance(name, str) and name.isidentifier()):
                raise ExportError(f"mesh: {name!r} is not the name of an axis; use letters")
            if type(size) is not int or size < 1:
                raise ExportError(
                    f"mesh: the size of {name} must be a number, 1 or more, not {size!r}"
                )
        return cls(tuple(sizes.items()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(size for _, size in self.axes)

    @property
    def devices(self) -> int:
        """The number of devices in the mesh."""
        return prod(self.sizes)

    @property
    def shardy(self) -> str:
        """The mesh as Shardy's attribute."""
        axes = ", ".join(f'"{name}"={size}' for name, size in self.axes)
        return f"#sdy.mesh<[{axes}]>"

    def parts(self, axes: Sequence[str]) -> int:
        """The number of parts of a dimension that is divided along axes."""
        sizes = dict(self.axes)
        return prod(sizes[name] for name in axes)

    def spec(self, spec: Any, shape: Sequence[int], name: str) -> Spec:
        """Check a user's spec for a value of a shape, and return it in full form.

        Args:
            spec: an axis, several axes, or None for each dimension; the last dimensions may be
                missing. A `jax.sharding.PartitionSpec` is accepted too, unless it leaves dimensions
                open or has `reduced` or `unreduced` axes.
            name: the name of the value, for messages.

        Raises:
            ExportError: the spec does not fit the mesh or the shape.
        """
        # An iterator would be empty for the next value that matches the pattern.
        if isinstance(spec, str | Mapping | Set | Iterator) or not isinstance(spec, Iterable):
            raise ExportError(_no_spec(spec, name))
        # For such a PartitionSpec, jax 0.7.1 yields the other axes, and newer releases raise.
        if getattr(spec, "unreduced", None) or getattr(spec, "reduced", None):
            raise ExportError(_no_spec(spec, name))
        parts = tuple(spec)
        if len(parts) > len(shape):
            raise ExportError(
                f"the sharding of {name} has {len(parts)} dimensions, {spec!r}, and the value"
                f" {len(shape)}"
            )
        dimensions = []
        for part in parts:
            if part is not None and not isinstance(part, str | Sequence):
                raise ExportError(_no_spec(spec, name))
            axes = () if part is None else (part,) if isinstance(part, str) else tuple(part)
            dimensions.append(axes)
        dimensions += [()] * (len(shape) - len(dimensions))
        used = [axis for axes in dimensions for axis in axes]
        for axis in used:
            if axis not in self.names:
                hint = did_you_mean(axis, self.names) if isinstance(axis, str) else ""
                raise ExportError(
                    f"the sharding of {name} names the axis {axis!r}{hint}; the mesh has"
                    f" {', '.join(self.names)}"
                )
            if used.count(axis) > 1:
                raise ExportError(f"the sharding of {name} names the axis {axis!r} twice")
        for size, axes in zip(shape, dimensions, strict=True):
            if size % self.parts(axes):
                raise ExportError(
                    f"the sharding of {name} divides a dimension of {size} among {self.parts(axes)}"
                    " devices, which is not a divisor; change the mesh or the sharding"
                )
        return tuple(dimensions)

    # ---- as text ----

    def text(self, spec: Spec, form: Form) -> str:
        """The text of a spec for a partitioner."""
        if form == "shardy":
            dimensions = (", ".join(f'"{axis}"' for axis in axes) for axes in spec)
            return f"#sdy.sharding<@mesh, [{', '.join(f'{{{axes}}}' for axes in dimensions)}]>"
        from lowering.frontends.jax.internals import gspmd_text

        return gspmd_text(self.axes, spec)

    def parse_spec(self, text: str, rank: int) -> Spec | None:
        """Parse a text of GSPMD or Shardy to a spec of this mesh; None if there is no such spec."""
        if text.startswith("#sdy"):
            dimensions = text.partition("[")[2].rpartition("]")[0]
            spec = tuple(tuple(_QUOTED.findall(part)) for part in _BRACES.findall(dimensions))
            return spec if len(spec) == rank else None
        from lowering.frontends.jax.internals import gspmd_spec

        return gspmd_spec(self.axes, text, rank)


def _no_spec(spec: Any, name: str) -> str:
    return (
        f"the sharding of {name} must have an axis or None for each dimension, such as"
        f" ('model', None), not {spec!r}"
    )


# ---- for a program's values ----


def input_specs(
    mesh: DeviceMesh, by_pattern: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Spec]:
    """The specs of inputs by name.

    Args:
        by_pattern: specs by pattern (`*`, `?`, `[…]`) of the names of inputs. Names of parameters
            may be without `param:`. The last pattern that matches a name decides.
        shapes: the shapes of all inputs. Optimizer state of its parameter's shape is divided like
            the parameter, unless a pattern matches the state.

    Raises:
        ExportError: a pattern matches no input, or a spec does not fit.
    """
    specs: dict[str, Spec] = {}
    for pattern, spec in by_pattern.items():
        if not isinstance(pattern, str):
            raise ExportError(f"shardings: a pattern must be a string, not {pattern!r}")
        names = [name for name in shapes if matches(pattern, name)]
        if not names:
            raise ExportError(
                f"shardings: no input has the name {pattern!r}{names_near(pattern, shapes)}"
            )
        for name in names:
            specs[name] = mesh.spec(spec, shapes[name], name)
    for name, shape in shapes.items():
        parameter = _parameter_name(name)
        if name not in specs and parameter in specs and shapes[parameter] == shape:
            specs[name] = specs[parameter]
    return specs


def names_near(pattern: str, inputs: Iterable[str]) -> str:
    """A hint, for messages, at the names that a pattern without a matching input may mean."""
    names = [name.removeprefix("param:") for name in inputs]
    close = did_you_mean(pattern, names)
    if close:
        return close
    listed = [name for name in names if not name.startswith("state:")]
    more = ", …" if len(listed) > LISTED else ""
    return f"; the inputs are {', '.join(listed[:LISTED])}{more}" if listed else ""


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern matches the name of an input, with or without `param:`."""
    return fnmatchcase(name, pattern) or (
        name.startswith("param:") and fnmatchcase(name.removeprefix("param:"), pattern)
    )


def _parameter_name(name: str) -> str:
    """The name of the parameter to which a state belongs; empty for other inputs."""
    kind, _, plain = name.partition(":")
    return f"param:{plain.rpartition('.')[0]}" if kind == "state" else ""


def output_spec(name: str, updates: str | None, inputs: Mapping[str, Spec]) -> Spec | None:
    """The spec of an output: the spec of the input that it updates, or of the parameter whose
    gradient it is."""
    if updates is not None:
        return inputs.get(updates)
    kind, _, plain = name.partition(":")
    return inputs.get(f"param:{plain}") if kind == "grad" else None
