"""Calls that the sharding benchmark runs, on tensors that a mesh of devices shares out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
import yaml
from torch import Tensor
from torch.nn import functional

from benchmarks.cases import Case, called, cross_entropy, group_norm, images, instance_norm
from benchmarks.training_models import transformers_model

Spec = tuple[str | None, ...]
"""The axis of the mesh that shares out each dimension of a tensor, or None."""

MODEL = "model"
DATA = "data"
FSDP = "fsdp"
"""The axis of the mesh that torch_xla's FSDPv2 asks for."""


@dataclass(frozen=True, slots=True)
class Sharded:
    """A call with sharded tensors. `make` gives its tensors on the CPU, by name; those of floating
    point are leaves. The step is `function(**tensors)` and the gradients of its sum of squares."""

    name: str
    entries: tuple[str, ...]
    make: Callable[[], dict[str, Tensor]]
    function: Callable[..., Any]
    specs: Mapping[str, Spec] | Callable[[str, Tensor], Spec | None]
    """The specs of tensors that are shared out; the others are whole on each device."""
    axes: tuple[str, ...] = (MODEL,)
    """The axes of the mesh. Where there are two, the first has two devices."""

    def spec(self, name: str, tensor: Tensor) -> Spec | None:
        """The partition spec of a tensor; None if the tensor is whole on each device."""
        return self.specs(name, tensor) if callable(self.specs) else self.specs.get(name)

    @property
    def held(self) -> bool:
        """True if a test checks that composites have no more collectives than stock."""
        return self.name not in MORE


def _spec(axes: Sequence[str]) -> Spec:
    """A spec of the YAML file, in which a dimension that is not shared out is `whole`."""
    return tuple(MODEL if axis == "model" else None for axis in axes)


def _sharded(
    name: str,
    *,
    specs: Sequence[Sequence[str]],
    sizes: Sequence[int] = (),
    entry: str | None = None,
    **options: Any,
) -> Sharded:
    """A call, with the specs of its operands: a row of `calls` in the YAML file."""
    entry = entry or name.partition(",")[0]
    case = OPERATORS["attention" if "attention" in entry else entry](*sizes, **options)

    def make() -> dict[str, Tensor]:
        constants = {f"constant{n}": tensor for n, tensor in enumerate(case.constants())}
        return {**case.operands(), **constants}

    def call(**tensors: Tensor) -> Tensor:
        return case.function(*tensors.values())

    named = {key: _spec(axes) for key, axes in zip(case.operands(), specs, strict=False) if axes}
    return Sharded(name, (entry,), make, call, named)


def _attention(heads: int = 8, **keywords: Any) -> Case:
    attend = partial(functional.scaled_dot_product_attention, **keywords)
    narrow = (2, heads, 32, 16)
    return called("attention", attend, (2, 8, 32, 16), narrow, narrow)


def _layer_norm(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.layer_norm(input, weight.shape, weight, bias)


def _rms_norm(input: Tensor, weight: Tensor) -> Tensor:
    return functional.rms_norm(input, weight.shape, weight, 1e-6)


def _mlp(input: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return functional.linear(functional.gelu(functional.linear(input, up)), down)


_FILE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
MODELS: Mapping[str, Mapping[str, Any]] = _FILE["models"]
"""The class of transformers, and what its config is made of."""
TENSOR_PARALLEL: Mapping[str, Spec] = {
    end: _spec(axes) for end, axes in _FILE["tensor parallel"].items()
}
"""The sharding of Megatron (Shoeybi et al., 2019), by the end of a parameter's name."""


def build(model: str) -> torch.nn.Module:
    """A model with random weights."""
    settings = dict(MODELS[model])
    return transformers_model(settings.pop("class"), **settings)


Parallelism = Literal["tensor", "data", "FSDP", "2-D"]
AXES: Mapping[Parallelism, tuple[str, ...]] = {
    "tensor": (MODEL,),
    "data": (DATA,),
    "FSDP": (FSDP,),
    "2-D": (DATA, MODEL),
}


def spec(kind: Parallelism, name: str, tensor: Tensor) -> Spec | None:
    """The partition spec of a step's parameter, or of its batch."""
    if name == "input_ids":
        return None if kind == "tensor" else (AXES[kind][0], None)
    if kind == "FSDP":
        return (FSDP, *[None] * (tensor.dim() - 1))
    if kind == "data":
        return None
    return next((s for end, s in TENSOR_PARALLEL.items() if name.endswith(end)), None)


def _fully_sharded(module: torch.nn.Module) -> torch.nn.Module:
    """The module in torch_xla's FSDPv2, as its layers are."""
    import torch_xla.distributed.spmd as spmd
    from torch_xla.experimental.spmd_fully_sharded_data_parallel import (
        SpmdFullyShardedDataParallel as FullySharded,
    )

    layers = tuple(getattr(module, "_no_split_modules", None) or ())
    mesh = spmd.get_global_mesh()

    def divide_result(result: Any, mesh: Any) -> None:
        first = result if isinstance(result, Tensor) else getattr(result, "logits", result[0])
        spmd.mark_sharding(first, mesh, (FSDP, *[None] * (first.dim() - 1)))

    def wrapped(child: torch.nn.Module) -> torch.nn.Module:
        divided: torch.nn.Module = FullySharded(child, mesh=mesh, shard_output=divide_result)
        return divided

    for owner in list(module.modules()):
        for name, child in owner.named_children():
            if type(child).__name__ in layers:
                setattr(owner, name, wrapped(child))
    return wrapped(module)


def _training(model: str, kind: Parallelism) -> Sharded:
    """A step of a language model with everything on, without an optimizer."""

    def make() -> dict[str, Tensor]:
        tensors = {n: p.detach() for n, p in build(model).named_parameters()}
        return tensors | {"input_ids": torch.randint(128, (8, 16))}

    def call(input_ids: Tensor, **parameters: Tensor) -> Tensor:
        module: Any = build(model).eval().to(input_ids.device)  # without dropout
        module.tie_weights()  # a move to another device makes two tensors of one
        if kind == "FSDP":
            module = _fully_sharded(module)
            names = [name for name, _ in module.named_parameters()]
            parameters = {name: parameters[name.replace("_orig_module.", "")] for name in names}
        inputs = {"input_ids": input_ids, "labels": input_ids}
        loss: Tensor = torch.func.functional_call(module, parameters, (), inputs).loss
        return loss

    return Sharded(
        f"step of {model}, {kind}",
        ("all",),
        make,
        call,
        partial(spec, kind),
        AXES[kind],
    )


OPERATORS: Mapping[str, Callable[..., Case]] = {
    "attention": _attention,
    "cross_entropy_loss": cross_entropy,
    "dropout": lambda *shape: called("dropout", functional.dropout, shape),
    "gelu": lambda: called("MLP", _mlp, (8, 16, 32), (128, 32), (32, 128)),
    "group_norm": group_norm,
    "instance_norm": instance_norm,
    "layer_norm": lambda *shape: called("layer norm", _layer_norm, shape, *[shape[-1:]] * 2),
    "rms_norm": lambda *shape: called("rms norm", _rms_norm, shape, shape[-1:]),
    "softmax": partial(images, "softmax", partial(functional.softmax, dim=-1)),
}
"""The case of each entry."""
CASES: tuple[Sharded, ...] = (
    *(_sharded(name, **row) for name, row in _FILE["calls"].items()),
    *(_training(model, kind) for kind in AXES for model in MODELS),
)

MORE = frozenset(
    (
        # Stock gathers the batch at the first layer norm; from there on each device computes
        # everything, with 3.7 times the multiplications, and has no gradients to add up.
        "step of BERT, data",
        "step of BERT, 2-D",
    )
)
"""The cases in which stock computes the same on every device."""
