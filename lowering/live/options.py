"""The options of the backend of torch.compile."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from composites.errors import CompositesError
from lowering.export.step import Kernels


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `torch.compile(…, options={…})`."""

    kernels: Kernels = "auto"
    """The kernels that replace composites, see `Program.compile`: those of registries, none, named
    kernels, or a mapping."""
    platform: str | None = None
    """The platform of JAX, such as `cpu` or `cuda`; by default that of the tensors. A device that
    PyTorch does not have receives copies of the tensors, like a mesh."""
    save: str | os.PathLike[str] | None = None
    """A folder to which each graph is written; see `lowering.live.saved`."""
    cache: str | os.PathLike[str] | None = None
    """A folder in which XLA's results are kept; see `Program.compile`."""
    mesh: Any = None
    """Devices among which XLA's partitioner divides each graph: names and sizes of axes, such as
    `{"data": 4}`, or a `jax.sharding.Mesh`."""
    shardings: Mapping[str, Any] | None = None
    """The dimensions of inputs that the mesh divides, by patterns of names such as `*.weight` and
    `arg:x`; see `composites.export`."""

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> "Options":
        """The options that a user gives.

        Raises:
            CompositesError: there is no such option.
        """
        if not isinstance(options, Mapping):
            raise CompositesError(f"options must be a mapping, not {options!r}")
        names = [field.name for field in fields(cls)]
        for name in options:
            if name not in names:
                hint = "; use composites.keep_on_devices" if name == "frozen" else ""
                raise CompositesError(
                    f"backend 'composites' has no option {name!r}; it has: {', '.join(names)}{hint}"
                )
        return cls(**options)
