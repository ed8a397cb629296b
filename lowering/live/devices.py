"""The devices of a live program, and the transfer of tensors to and from these devices.

A device that PyTorch and JAX share takes tensors without a copy. A mesh of several devices, and a
device that only JAX has, receive copies of a program's inputs at each call, and PyTorch receives
copies of its results, except for the state of `composites.keep_on_devices`. Values that autograd
saves, including inputs, stay on the devices until the backward.
"""

import ctypes
import hashlib
import os
import sys
import warnings
from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch

from composites.element_types import NAME_OF_PYTORCH
from composites.errors import CompositesError, CompositesWarning
from lowering.export.compilation_cache import cached_in
from lowering.export.partitioning import platform_name, sharding_on
from lowering.export.shardings import DeviceMesh, Spec
from lowering.frontends.tensor_types import DTYPE_OF
from lowering.live.exchange import (
    ProgramInputs,
    in_plain_order,
    remember,
    remember_copy,
    remembered_copy,
    to_jax,
    to_torch,
)
from lowering.live.input_names import InputShardings
from lowering.live.kept_state import kept_tensor
from lowering.live.options import Options
from lowering.live.strides import Order, in_memory_order, in_own_order
from lowering.stablehlo.errors import RunError
from lowering.stablehlo.run import enable_x64, import_jax, local_devices

_COMPILED: MutableMapping[Hashable, Callable[..., Any]] = WeakValueDictionary()
"""The compiled functions of this process, by device, options and StableHLO. Layers that are
compiled separately share them, and so does a graph that Dynamo traces again for sizes that vary."""


@dataclass(frozen=True, slots=True)
class GraphInput:
    """An input of a graph that is a tensor."""

    name: str | None
    """The name that patterns of shardings match; None for the inputs of a backward."""
    order: Order
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices that run a graph."""

    home: Any
    """The device of JAX that shares the memory of PyTorch's tensors."""
    mesh: Any = None
    """A `jax.sharding.Mesh` of devices that tensors are copied to; by default, `home` runs the
    graph."""
    shardings: InputShardings = field(default_factory=InputShardings)

    @property
    def platform(self) -> str:
        """The platform of JAX."""
        return platform_name(self.home if self.mesh is None else self.mesh.devices.flat[0])

    @property
    def are_several(self) -> bool:
        """True if XLA's partitioner divides the graph."""
        return self.mesh is not None and self.mesh.devices.size > 1

    def compile(
        self,
        function: Callable[..., Any],
        types: Sequence[Any],
        results: int,
        options: Mapping[str, Any] | None,
        cache: str | os.PathLike[str] | None,
        donated: Sequence[int] = (),
    ) -> Callable[..., Any]:
        """A compiled function of arrays on the devices. For a mesh, XLA compiles at the first call,
        for the shardings that saved values have in that call.

        Args:
            types: a `jax.ShapeDtypeStruct` for each operand.
            results: the number of results.
            options: options of XLA's compiler.
            cache: a folder that keeps XLA's results; see `Program.compile`.
            donated: the operands whose memory the first results take, in the order of the results.

        Raises:
            RunError: XLA cannot compile the function.
        """
        jax = import_jax()
        if self.mesh is not None:
            return _compiled_at_first_call(function, options, cache)
        on_device = jax.sharding.SingleDeviceSharding(self.home)
        with enable_x64(), cached_in(cache):
            jitted = jax.jit(
                function,
                in_shardings=tuple(on_device for _ in types),
                out_shardings=tuple(on_device for _ in range(results)),
                keep_unused=True,
                donate_argnums=tuple(donated),
                compiler_options=options,
            )
            lowered = jitted.lower(*types)
            text = lowered.as_text().encode()
            key = self.home, cache, str(options), hashlib.sha256(text).hexdigest()
            compiled: Callable[..., Any] | None = _COMPILED.get(key)
            if compiled is None:
                compiled = _COMPILED[key] = lowered.compile()
                _return_memory()
            return compiled

    def inputs(
        self, inputs: Sequence[GraphInput | None], *, is_backward: bool
    ) -> Callable[[int, torch.Tensor], Any]:
        """A function that returns the array of the input at a position.

        Args:
            inputs: None for inputs that are not tensors.

        Raises:
            ExportError: a sharding does not fit its input.
        """
        orders = [None if graph_input is None else graph_input.order for graph_input in inputs]
        if self.mesh is None:
            return ProgramInputs(orders, self.home).to_jax
        if not is_backward and not any(x is not None and x.name for x in inputs):
            self._warn_of_names()
        specs = [None if graph_input is None else self._spec(graph_input) for graph_input in inputs]
        on_mesh = [sharding_on(self.mesh, spec) for spec in specs]
        device_set = {*self.mesh.devices.flat}

        def to_mesh(position: int, tensor: torch.Tensor) -> Any:
            order, sharding = orders[position], on_mesh[position]
            if tensor.is_meta:
                return remembered_copy(tensor, order)
            kept = kept_tensor(tensor)
            if kept is None:
                return self._put(in_memory_order(tensor, order), sharding)
            array = kept.array(tensor, partial(self._put, sharding=sharding))
            if specs[position] is None and array.sharding.device_set == device_set:
                return array
            return kept.divide(sharding)

        return to_mesh

    def array(self, tensor: torch.Tensor) -> Any:
        """The array of a tensor that is not an input."""
        if self.mesh is None:
            return to_jax(tensor, self.home)
        return self._put(tensor, sharding_on(self.mesh, None))

    def at_home(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """Arrays on the device that shares PyTorch's memory. All copies are made at once."""
        if self.mesh is None:
            return arrays
        jax = import_jax()
        copies: Sequence[Any] = jax.block_until_ready(jax.device_put(list(arrays), self.home))
        return copies

    def saved(self, array: Any, order: Order) -> torch.Tensor:
        """A result as a tensor for autograd and the backward only. For a mesh, the tensor has no
        values."""
        if self.mesh is None:
            tensor = to_torch(array, order)
            remember(tensor, array, order)
            return tensor
        dtype = DTYPE_OF[NAME_OF_PYTORCH[array.dtype.name]]
        like = torch.empty(array.shape, dtype=dtype, device="meta")
        return remember_copy(in_own_order(like, order), array, order)

    def _warn_of_names(self) -> None:
        if self.shardings.by_pattern:
            warnings.warn(
                "shardings have no effect on a graph whose inputs have no names, as"
                " where inputs share memory and one is written to: pass separate tensors",
                CompositesWarning,
                stacklevel=2,
            )

    def _spec(self, described: GraphInput) -> Spec | None:
        spec = self.shardings.spec(described.name, described.shape)
        if spec is not None and described.order is not None:
            spec = tuple(spec[dim] for dim in described.order)
        return spec

    @staticmethod
    def _put(tensor: torch.Tensor, sharding: Any) -> Any:
        jax = import_jax()
        # Arrays of `to_jax` stay on their device: JAX cannot copy them to other devices.
        return jax.device_put(jax.dlpack.from_dlpack(in_plain_order(tensor)), sharding)


def _return_memory() -> None:
    """Return the memory that the compiler has freed to the system. The GNU C library would keep it:
    50 to 100 MB of the peak memory of a training step."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _compiled_at_first_call(
    function: Callable[..., Any],
    options: Mapping[str, Any] | None,
    cache: str | os.PathLike[str] | None,
) -> Callable[..., Any]:
    jitted = import_jax().jit(function, keep_unused=True, compiler_options=options)
    compiled: set[tuple[Any, ...]] = set()

    def run(*arrays: Any) -> Any:
        key = () if cache is None else tuple(array.sharding for array in arrays)
        with nullcontext() if key in compiled else cached_in(cache):
            try:
                results = jitted(*arrays)
            except (RuntimeError, ValueError) as error:
                raise RunError(f"a graph failed on the mesh: {error}") from error
        compiled.add(key)
        return results

    return run


def select_devices(options: Options, shardings: InputShardings, device_type: str) -> Devices:
    """The devices that options name.

    Args:
        device_type: the type of the device of PyTorch's tensors.

    Raises:
        CompositesError: the mesh has devices of other processes, or more devices than exist, or
            options exclude each other.
        RunError: there is no such platform.
    """
    if options.mesh is None:
        device = local_devices(options.platform or device_type)[0]
        named = platform_name(device)
        if device_type == ("cuda" if named == "rocm" else named):  # PyTorch's name for both
            return Devices(device)
    try:
        home = local_devices(device_type)[0]
    except RunError as error:
        hint = f"the tensors are on {device_type}: add it, as in JAX_PLATFORMS=tpu,{device_type}"
        raise RunError(f"{error}; {hint}") from error
    if options.mesh is not None and options.platform is not None:
        raise CompositesError("mesh and platform cannot both be given; make a mesh of its devices")
    mesh = _jax_mesh(options.mesh, options.platform or device_type)
    return Devices(home, mesh, shardings)


def _jax_mesh(mesh: Any, platform: str) -> Any:
    from jax.sharding import Mesh

    if isinstance(mesh, Mesh):
        local = mesh.devices.flat[0].client.local_devices()
        if any(device not in local for device in mesh.devices.flat):
            raise CompositesError(
                "mesh: a live program runs in one process, and the mesh has devices of others; use"
                " DistributedDataParallel, FSDP, or an exported step"
            )
        # Explicit axes would make each result whole on every device.
        return Mesh(mesh.devices, mesh.axis_names)
    described = DeviceMesh.from_mesh(mesh or {"device": 1})
    devices = local_devices(platform)
    if len(devices) < described.devices:
        raise CompositesError(
            f"mesh: {dict(described.axes)} needs {described.devices} devices of the platform"
            f" {platform}, and there are {len(devices)}; make it smaller, or use the platform cpu"
            f" with XLA_FLAGS=--xla_force_host_platform_device_count={described.devices}"
        )
    chosen = np.array(devices[: described.devices]).reshape(described.sizes)
    return Mesh(chosen, described.names)
