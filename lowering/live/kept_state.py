"""`composites.keep_on_devices`: parameters and optimizer states that stay on a program's devices.

The devices of a mesh, and a device that only JAX has, receive copies of PyTorch's tensors. A tensor
of a kept state is copied once: its values are an array on the devices from then on. PyTorch raises
an error for code that reads or writes the tensor's old memory. The array belongs to the storage of
the tensor, which its aliases share.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from weakref import WeakSet, ref

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from composites.errors import CompositesError
from composites.tensor_subclasses import inner_tensors, with_inner_tensors
from composites.torch_internals import pytree, refuse_access, storage_key
from lowering.live.exchange import to_torch
from lowering.live.strides import Order, in_memory_order, memory_order
from lowering.stablehlo.run import enable_x64, import_jax, local_devices

_ATTRIBUTE = "_composites_kept"
"""The attribute of a storage that holds its `KeptTensor`."""
_ON_DEVICES = (
    "the values of this tensor are on the devices of live programs (composites.keep_on_devices):"
    " compile the code that reads or writes it for the same devices, read it through state_dict(),"
    " or call to_host() of what keep_on_devices returned before"
)


class KeptTensor:
    """A tensor that stays on the devices after the first program has read it."""

    def __init__(self, tensor: Tensor, state: "KeptState") -> None:
        """A tensor of a state, whose values are in PyTorch's memory."""
        self.states = [state]
        self.form = _form(tensor)
        self._order = memory_order(tensor)
        self._array: Any = None
        self._copy: Callable[[], Tensor | None] = lambda: None

    @property
    def is_on_devices(self) -> bool:
        """True if the values are on the devices, and PyTorch's memory is not in use."""
        return self._array is not None

    def array(self, tensor: Tensor, put: Callable[[Tensor], Any]) -> Any:
        """The values on the devices, with dimensions in the order of the tensor's memory.

        Args:
            tensor: the tensor.
            put: copies a tensor to the devices.
        """
        if self._array is None:
            # A device of the mesh can take PyTorch's memory, which arrays of NumPy may share.
            copied = put(in_memory_order(tensor, self._order).clone())
            self.write(tensor, copied, self._order)
        return self._array

    def write(self, tensor: Tensor, array: Any, order: Order) -> None:
        """Give the tensor the values of an array, with dimensions in an order. The values are
        divided among the devices like the previous values."""
        if order != self._order:
            own, dims = (dims or tuple(range(tensor.dim())) for dims in (order, self._order))
            array = array.transpose([own.index(dim) for dim in dims])
        if self._array is None:
            refuse_access(tensor, _ON_DEVICES)
        elif array.sharding != self._array.sharding:
            array = import_jax().device_put(array, self._array.sharding)
        self._array, self._copy = array, lambda: None

    def divide(self, sharding: Any) -> Any:
        """Divide the values among the devices in another way, and return them."""
        if self._array.sharding != sharding:
            self._array = import_jax().device_put(self._array, sharding)
        return self._array

    def on_host(self) -> Tensor:
        """A copy of the values in PyTorch's memory. Aliases of one tensor have the same copy."""
        copy = self._copy()
        if copy is None:
            jax = import_jax()
            with enable_x64():
                array = jax.block_until_ready(jax.device_put(self._array, local_devices("cpu")[0]))
            with torch.inference_mode(False):
                copy = to_torch(array, self._order).clone()  # the values may be on the CPU already
            self._copy = ref(copy)
        return copy


def _form(tensor: Tensor) -> tuple[Any, ...]:
    """The parts in which views of one storage differ."""
    view = tensor.size(), tensor.stride(), tensor.storage_offset()
    return *view, tensor.dtype, tensor.is_conj(), tensor.is_neg()


def kept_tensor(tensor: Tensor) -> KeptTensor | None:
    """The kept tensor that has the storage of a tensor, unless the tensor is another view of it."""
    kept = _kept_storage(tensor)
    return kept if kept is not None and kept.form == _form(tensor) else None


def _has_storage(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and not is_lazy(tensor)


def _kept_storage(tensor: Tensor) -> KeptTensor | None:
    """The kept tensor that has the storage of a tensor, which can be another view of it."""
    if not _has_storage(tensor):
        return None
    kept: KeptTensor | None = getattr(tensor.untyped_storage(), _ATTRIBUTE, None)
    return kept


def kept_tensors(tensors: Mapping[int, Tensor]) -> dict[int, KeptTensor]:
    """The kept tensors among tensors to which a graph writes, by their positions.

    States that an optimizer makes in its first step are kept from then on.
    """
    kept = {position: kept_tensor(tensor) for position, tensor in tensors.items()}
    states = {state for value in kept.values() if value is not None for state in value.states}
    if states and None in kept.values():
        for state in states:
            state.mark()
        kept = {position: kept_tensor(tensor) for position, tensor in tensors.items()}
    return {position: value for position, value in kept.items() if value is not None}


class KeptState:
    """The state of modules and optimizers that stays on the devices of live programs.

    `state_dict()` of the modules and optimizers, and of modules within them, returns copies of the
    values on the devices; `load_state_dict()` calls `to_host()`.
    """

    def __init__(self, *owners: torch.nn.Module | torch.optim.Optimizer) -> None:
        """See `keep_on_devices`."""
        self._owners = [ref(owner) for owner in owners]
        self._hooks: list[Any] = []
        self._hooked: WeakSet[Any] = WeakSet()
        self.mark()

    def to_host(self) -> None:
        """Bring all values back to PyTorch's memory, from which the next program copies them.

        Call it before code in eager PyTorch reads or writes the state.
        """
        moved: dict[int, Tensor] = {}
        storages: list[Any] = []
        for tensor in self._tensors():
            kept = kept_tensor(tensor)
            if kept is not None and kept.is_on_devices:
                key, storage = storage_key(tensor), tensor.untyped_storage()
                if key not in moved:
                    storages.append(storage)
                    with torch.inference_mode(False):  # state_dict() may have returned the copy
                        moved[key] = kept.on_host().clone()
                tensor.data = moved[key]
                for state in kept.states:
                    state._mark(tensor)
        for storage in storages:  # other aliases are errors from now on
            delattr(storage, _ATTRIBUTE)

    def remove(self) -> None:
        """Bring all values back to PyTorch's memory, where they stay."""
        self.to_host()
        for tensor in self._tensors():
            kept = kept_tensor(tensor)
            if kept is not None:
                kept.states = [state for state in kept.states if state is not self]
                if not kept.states:
                    delattr(tensor.untyped_storage(), _ATTRIBUTE)
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def mark(self) -> None:
        """Mark the tensors of the state, so that they stay on the devices of programs."""
        for tensor in self._tensors():
            self._mark(tensor)
        for owner in self._parts():
            if owner not in self._hooked:
                self._hooked.add(owner)
                is_module = isinstance(owner, torch.nn.Module)
                copied = _copied_entries if is_module else _copied_state
                self._hooks += [
                    owner.register_state_dict_post_hook(copied),
                    owner.register_load_state_dict_pre_hook(self._before_loading),
                ]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle an empty state, so that hooks of a module's copies have no tensors."""
        return KeptState, ()

    def _mark(self, tensor: Tensor) -> None:
        if not _has_storage(tensor) or tensor.is_inference() or tensor.is_meta:
            return
        storage, kept = tensor.untyped_storage(), _kept_storage(tensor)
        if kept is not None and self not in kept.states:
            kept.states.append(self)
        is_whole = 0 < storage.nbytes() == tensor.numel() * tensor.element_size()
        if kept is None and is_whole:
            setattr(storage, _ATTRIBUTE, KeptTensor(tensor, self))

    def _parts(self) -> Iterator[Any]:
        """The modules, with the modules within them, and the optimizers."""
        for reference in self._owners:
            owner = reference()
            if isinstance(owner, torch.nn.Module):
                yield from owner.modules()
            elif owner is not None:
                yield owner

    def _tensors(self) -> Iterator[Tensor]:
        for owner in self._parts():
            if isinstance(owner, torch.nn.Module):
                values = [*owner.parameters(recurse=False), *owner.buffers(recurse=False)]
            else:
                parameters = [group["params"] for group in owner.param_groups]
                values = pytree.tree_leaves([parameters, list(owner.state.values())])
            for value in values:
                if isinstance(value, Tensor):
                    yield from (tensor for _, tensor in inner_tensors("", value))

    def _before_loading(self, *_: Any) -> None:
        self.to_host()


def keep_on_devices(*owners: torch.nn.Module | torch.optim.Optimizer) -> KeptState:
    """Let parameters, buffers and optimizer states stay on the devices of live programs.

    For `torch.compile(…, backend="composites", options=…)` with a `mesh`, or with a `platform` that
    PyTorch does not have. The first program that reads a tensor copies it to the devices. Code in
    eager PyTorch that reads or writes the tensor after that raises `RuntimeError`, and so do
    programs on other devices. So an optimizer of kept parameters must be compiled too, for the same
    devices. Sparse tensors, tensors of inference mode and parts of larger storages are not kept.

    Args:
        owners: modules, and optimizers of their parameters.

    Returns:
        The state, which can bring its values back to PyTorch's memory.

    Raises:
        CompositesError: an owner is neither a module nor an optimizer.
    """
    for owner in owners:
        if not isinstance(owner, torch.nn.Module | torch.optim.Optimizer):
            raise CompositesError(
                f"keep_on_devices takes modules and optimizers, not {type(owner).__name__}"
            )
    return KeptState(*owners)


def _copied_value(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    kept = [kept_tensor(tensor) for _, tensor in inner_tensors("", value)]
    if not any(state is not None and state.is_on_devices for state in kept):
        return value

    def on_host(_: str, tensor: Tensor) -> Tensor:
        state = kept_tensor(tensor)
        return tensor if state is None or not state.is_on_devices else state.on_host()

    return with_inner_tensors("", value, on_host)


def _copied_entries(
    module: torch.nn.Module, state_dict: dict[str, Any], prefix: str, _: Any
) -> None:
    parameters = module.named_parameters(recurse=False, remove_duplicate=False)
    buffers = module.named_buffers(recurse=False, remove_duplicate=False)
    for name, _ in (*parameters, *buffers):
        if prefix + name in state_dict:  # a buffer need not be persistent
            state_dict[prefix + name] = _copied_value(state_dict[prefix + name])


def _copied_state(_: Any, state_dict: dict[str, Any]) -> dict[str, Any]:
    return {**state_dict, "state": pytree.tree_map(_copied_value, state_dict["state"])}
