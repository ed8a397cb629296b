"""The state of a step: parameters, buffers and optimizer state on the device."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from composites.errors import ProgramError, did_you_mean
from composites.tensor_subclasses import inner_tensors
from lowering.export.arrays import array, check_type, kept_arrays
from lowering.export.manifest import Value
from lowering.stablehlo.dtypes import numpy_dtype

SEED = "rng_seed"

_ZERO = (
    *("acc_delta", "ax", "col_var", "exp_avg", "exp_avg_sq", "exp_inf", "grad_avg"),
    *("max_exp_avg_sq", "momentum_buffer", "prev", "row_var", "square_avg", "step", "variance"),
)
_FIRST_VALUES = {**dict.fromkeys(_ZERO, 0), "mu_product": 1}
"""The initial values of the state of torch.optim's optimizers, by key. Only a state of NAdam does
not start at zero. The initial values of other state, such as the learning rates of Rprop, are known
to the optimizer alone."""


@dataclass(frozen=True, eq=False)
class State:
    """The state that a step keeps from call to call, made by that step."""

    values: Mapping[str, Any]
    """Arrays by name of the input: of jax, on the device, or before that of numpy or jax."""
    saved_as: Mapping[str, str]
    """The names of inputs, by their names in the module's `state_dict`. A shared parameter has
    several names."""
    others: Mapping[str, Any]
    """The module's other values, which the program does not read: numpy arrays by name."""

    def __repr__(self) -> str:
        return f"State({len(self.values)} tensors)"


def is_state(value: Value) -> bool:
    """Return whether an input belongs to the state, and not to the batch."""
    return value.name.startswith(("param:", "buffer:", "cache:", "state:")) or value.name == SEED


def first_weights(
    inputs: Sequence[Value], weights: Any, optimizer: Any = None, seed: int = 0
) -> State:
    """The values that a state starts with.

    Args:
        inputs: the inputs of the program that belong to the state.
        weights: a torch module, or a mapping from names to arrays. A name is that of an input, or a
            name in the module's `state_dict`.
        optimizer: a torch optimizer of the module, whose state is used.
        seed: the first random seed.

    Raises:
        ProgramError: values are missing, or have another shape or dtype.
    """
    if hasattr(weights, "named_parameters"):
        arrays, names = _from_module(weights)
    elif isinstance(weights, Mapping):
        arrays, names = _from_mapping(inputs, weights)
    else:
        raise ProgramError(
            "weights must be a torch module, or a mapping from names to arrays such as its"
            f" state_dict(), not {type(weights).__name__}"
        )
    if optimizer is not None:
        arrays = arrays | _from_optimizer(weights, optimizer)
    read = {value.name for value in inputs}
    kept = kept_arrays(inputs)
    values: dict[str, Any] = {}
    for value in inputs:
        if value.name in arrays:
            values[value.name] = array(value.name, arrays[value.name])
            check_type(value, values[value.name])
        elif value.name in kept:
            values[value.name] = kept[value.name]
        elif value.name == SEED:
            values[SEED] = _seed(value, seed)
        elif value.name.startswith("cache:"):
            values[value.name] = _filled(value, 0)
        elif value.name.startswith("state:") and _key(value.name) in _FIRST_VALUES:
            values[value.name] = _filled(value, _FIRST_VALUES[_key(value.name)])
    _check_complete(inputs, values, arrays)
    saved_as = {name: key for name, key in names.items() if key in read}
    others = {  # copies
        name: np.array(array(name, arrays[key])) for name, key in names.items() if key not in read
    }
    return State(values, saved_as, others)


def small_values(inputs: Iterable[Value]) -> dict[str, Any]:
    """Values to run a program with: small random numbers for parameters and buffers, positive
    because a variance must be, and zeros for other state."""
    random = np.random.default_rng(0)
    values = {}
    for value in inputs:
        numbers = np.zeros(value.sizes)
        if _is_weight(value.name):
            numbers = np.abs(random.standard_normal(value.sizes)) * 0.02
        values[value.name] = numbers.astype(numpy_dtype(value.dtype))
    return values


def module_values(module: Any) -> dict[str, Any]:
    """The parameters and buffers of a torch module by the names of inputs."""
    values = {f"param:{name}": value for name, value in module.named_parameters()}
    values |= {f"buffer:{name}": value for name, value in module.named_buffers()}
    return dict(_held(values))


def _held(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Values by name, with the inner tensors instead of tensors that hold other tensors."""
    for name, value in values.items():
        yield from inner_tensors(name, value)


def _from_module(module: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Values by input name, and the inputs by the names in the state_dict."""
    values = module_values(module)
    owners = {id(value): name for name, value in values.items()}
    names: dict[str, str] = {}
    state = module.state_dict  # a dictionary for an ExportedProgram
    for name, value in _held(state(keep_vars=True) if callable(state) else state):
        if not hasattr(value, "shape"):
            continue  # a value of the module's get_extra_state
        names[name] = owners.get(id(value), f"buffer:{name}")
        values.setdefault(names[name], value)
    return values, names


def _from_mapping(
    inputs: Sequence[Value], weights: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    by_plain_name = {_plain(value.name): value.name for value in inputs if _is_weight(value.name)}
    prefixed = {value.name for value in inputs}
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    owners: dict[Any, str] = {}
    weights = dict(_held(weights))
    for name, value in weights.items():
        if not isinstance(name, str):
            raise ProgramError(f"names of weights must be text, not {name!r}")
        if name in prefixed or name.startswith(("state:", SEED)):
            values[name] = value
            if _is_weight(name):
                names[_plain(name)] = name
                owners.setdefault(_memory(value), name)
    for name, value in weights.items():
        if name in values:
            continue
        # A name without an input may be another name of a tensor that has an input.
        plain = _plain(name) if _is_weight(name) else name
        if plain in by_plain_name:
            owner = by_plain_name[plain]
            owners.setdefault(_memory(value), owner)
            values[owner] = value
            names[plain] = owner
    for name, value in weights.items():
        plain = _plain(name) if _is_weight(name) else name
        if name in values or plain in names:
            continue
        names[plain] = owners.get(_memory(value), f"buffer:{plain}")
        values.setdefault(names[plain], value)
    return values, names


def _from_optimizer(module: Any, optimizer: Any) -> dict[str, Any]:
    if not hasattr(module, "named_parameters") or not hasattr(optimizer, "state"):
        raise ProgramError(
            "optimizer must be a torch optimizer, and weights the torch module whose parameters it"
            " has; or give its state as weights by the names of inputs, such as"
            " 'state:0.weight.exp_avg'"
        )
    return {
        inner_name: inner
        for name, parameter in module.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if hasattr(value, "shape")
        for inner_name, inner in inner_tensors(f"state:{name}.{key}", value)
    }


def _check_complete(
    inputs: Iterable[Value], values: Mapping[str, Any], weights: Mapping[str, Any]
) -> None:
    missing = [value.name for value in inputs if value.name not in values]
    if not missing:
        return
    unused = [_plain(name) for name in weights if name not in values and _is_weight(name)]
    shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if missing[5:] else "")
    if all(name.startswith("state:") for name in missing):
        raise ProgramError(
            f"the optimizer's state is missing: {shown}; only the optimizer knows its initial"
            " state: pass optimizer= after a step of it, or the state in weights, under these names"
        )
    raise ProgramError(f"weights are missing: {shown}{did_you_mean(_plain(missing[0]), unused)}")


def _is_weight(name: str) -> bool:
    return name.startswith(("param:", "buffer:"))


def _plain(name: str) -> str:
    """The module's name of an input."""
    return name.partition(":")[2] if _is_weight(name) else name


def _key(name: str) -> str:
    """The key of a state, such as `exp_avg` of `state:0.weight.exp_avg`."""
    return name.rpartition(".")[2]


def _filled(value: Value, number: int) -> Any:
    return np.full(value.shape, number, numpy_dtype(value.dtype))


def _seed(value: Value, seed: int) -> Any:
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise ProgramError(f"the seed must be an integer, not {seed!r}")
    if not -(2**63) <= seed < 2**63:  # other integers would equal one of these in 64 bits
        raise ProgramError(f"the seed must be a signed 64-bit integer, not {seed}")
    bits = np.asarray(seed % 2**64, np.uint64)
    return bits.astype(numpy_dtype(value.dtype))


def _memory(value: Any) -> Any:
    """A key that is equal for two arrays in the same memory."""
    if hasattr(value, "data_ptr") and hasattr(value, "stride"):
        return value.data_ptr(), tuple(value.shape), value.stride(), str(value.dtype)
    if hasattr(value, "__array_interface__"):
        described = value.__array_interface__
        return described["data"][0], tuple(value.shape), value.strides, str(value.dtype)
    return id(value)


def flattened(prefix: str, argument: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of an argument, with the names that an export gives them."""
    if isinstance(argument, Mapping):
        for key, value in argument.items():
            yield from flattened(_joined(prefix, key), value)
    elif isinstance(argument, list | tuple):
        fields = getattr(argument, "_fields", range(len(argument)))
        for key, value in zip(fields, argument, strict=True):
            yield from flattened(_joined(prefix, key), value)
    else:
        yield prefix, argument


def _joined(prefix: str, key: Any) -> str:
    return f"{prefix}{key}" if prefix.endswith(":") else f"{prefix}.{key}"
