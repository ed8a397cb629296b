"""Calls with gradients, for tests of kernels beside the decompositions that they replace."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import composites
from benchmarks.cases import Called
from composites import Program
from composites.functions import find_function
from composites.registry.listed_kernels import listed_in
from lowering.export.arrays import array
from lowering.stablehlo.kernels import distinct

F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
TOLERANCE = {F32: 2e-6, BF16: 2e-2, F16: 4e-3}


@dataclass(frozen=True)
class Sample:
    """A call with gradients for its first operands, which `constants` follow."""

    function: Callable[..., Tensor]
    operands: Sequence[tuple[int, ...]]
    constants: Callable[[], Sequence[Tensor]] = tuple
    dtype: torch.dtype = F32
    keywords: Mapping[str, Any] = field(default_factory=dict)
    size: float = 1.0
    """The size of the operands."""
    calls: int = 2
    """Kernels of forward and backward, and of composites in their decompositions."""
    tolerance: float | None = None
    """The tolerance, by default that of the dtype."""
    module: str = ""
    """The module of the kernels, where several are listed for a composite."""

    def call(self, *tensors: Tensor) -> Tensor:
        return self.function(*tensors, **self.keywords)

    @property
    def accepted(self) -> float:
        return TOLERANCE[self.dtype] if self.tolerance is None else self.tolerance

    def program(self) -> tuple[Program, list[np.ndarray]]:
        """Forward and backward of the call, and the values of the program's inputs."""
        torch.manual_seed(0)
        operands = {
            str(number): (self.size * torch.randn(shape)).to(self.dtype)
            for number, shape in enumerate(self.operands)
        }
        constants = tuple(self.constants())
        weights = torch.randn(self.call(*operands.values(), *constants).shape)
        module = Called(self.call, operands)
        program = composites.export(module, (weights, *constants), train=True)
        named = {f"param:{key}": value.detach() for key, value in module.named_parameters()}
        named["rng_seed"] = torch.tensor(12345678901)
        rest = iter((weights, *constants))
        tensors = [named[v.name] if v.name in named else next(rest) for v in program.inputs]
        return program, arrays_of(program, tensors)


def arrays_of(program: Program, tensors: Sequence[Tensor]) -> list[np.ndarray]:
    """The values of a program's inputs."""
    pairs = zip(program.inputs, tensors, strict=True)
    return [np.asarray(array(value.name, tensor)) for value, tensor in pairs]


def kernels_of(program: Program, registry: Path, module: str = "") -> dict[str, Callable[..., Any]]:
    """The functions that a registry file lists for the calls of a program."""
    called = {call.name: f"{call.name}@{call.version}" for call in distinct(program.module)}
    return {
        called[kernel.composite]: find_function(kernel.name)
        for kernel in listed_in(registry)
        if kernel.composite in called and not kernel.is_target and module in kernel.name
    }


def loss(rows: int = 40, classes: int = 300, labels: int = 0, **keywords: Any) -> Sample:
    """A cross entropy with labels below `labels`, or of all classes."""

    def labelled() -> Sequence[Tensor]:
        return (torch.randint(labels or classes, (rows,)),)

    dtype = keywords.pop("dtype", F32)
    return Sample(functional.cross_entropy, [(rows, classes)], labelled, dtype, keywords)
