"""Calls of what entries catch, at sizes of real models, and training with them on a device.

A `Call` has its tensors on the CPU; `placed` gives the same call on the device, which `traced` runs
as a trainer does: forward, forward and backward, or the gradients alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from composites.element_types import PYTORCH_NAMES
from composites.registry.catalog import load_catalog
from composites.registry.model import Composite
from composites.torch_internals import pytree
from lowering.example_calls import NoExample, example_calls

Mode = Literal["forward", "forward + backward", "gradient", "update"]
"""How to run it. The gradient alone is what a step needs whose loss nobody reads."""
FORWARD: Mode = "forward"
BOTH: Mode = "forward + backward"
GRADIENT: Mode = "gradient"
UPDATE: Mode = "update"

Place = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments. Tensors that need a gradient have `requires_grad`."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    seeds: dict[int, torch.Tensor] = field(default_factory=dict)
    """Gradients of the results, by their numbers. They are data: XLA would fold constants."""

    @property
    def leaves(self) -> list[torch.Tensor]:
        """The tensors that need a gradient, parameters of modules among them."""
        found = []
        for value in pytree.tree_leaves((self.arguments, dict(self.keywords))):
            tensors = value.parameters() if isinstance(value, torch.nn.Module) else (value,)
            found += [t for t in tensors if isinstance(t, torch.Tensor) and t.requires_grad]
        return found

    def placed(self, place: Place) -> Call:
        """The same call with `place(tensor)` in the place of each tensor."""

        def leaf(value: Any) -> Any:
            if isinstance(value, torch.nn.Module):
                return moved(value, place)
            if not isinstance(value, torch.Tensor):
                return value
            return place(value.detach()).requires_grad_(value.requires_grad)

        arguments, keywords = pytree.tree_map(leaf, (self.arguments, dict(self.keywords)))
        return Call(self.function, arguments, keywords)

    def traced(self, mode: Mode) -> Sequence[torch.Tensor]:
        """Run it once. On the device, this records what `torch_xla.sync` computes while the
        results are held."""
        with torch.set_grad_enabled(mode != FORWARD):
            results = tensors_of(self.function(*self.arguments, **self.keywords))
        if mode == FORWARD:
            return results
        differentiable = [result for result in results if result.requires_grad]
        seeds = [self._seed(number, result) for number, result in enumerate(differentiable)]
        gradients: Sequence[torch.Tensor | None] = torch.autograd.grad(
            differentiable,
            self.leaves,
            seeds,  # type: ignore[arg-type]  # None is for scalars
            allow_unused=True,
        )
        held = [] if mode == GRADIENT else [result.detach() for result in results]
        return [*held, *(gradient for gradient in gradients if gradient is not None)]

    def _seed(self, number: int, result: torch.Tensor) -> torch.Tensor | None:
        if result.dim() == 0:
            return None  # losses start a backward without a gradient, as `loss.backward()` does
        if number not in self.seeds:
            self.seeds[number] = torch.randn(result.shape).to(result.device, result.dtype)
        return self.seeds[number]


def moved(module: torch.nn.Module, place: Place) -> torch.nn.Module:
    """A copy of a module with other parameters and buffers."""
    apply: Any = copy.deepcopy(module)._apply  # it has no type hints
    result: torch.nn.Module = apply(place)
    return result


@dataclass(frozen=True, slots=True)
class Update:
    """The step of an optimizer, whose parameters have gradients."""

    make: Callable[[list[torch.nn.Parameter]], Callable[[], Any]]
    """Takes the parameters and returns the step."""
    shapes: tuple[tuple[int, ...], ...]

    def placed(self, place: Place) -> Placed:
        parameters = [torch.nn.Parameter(place(torch.randn(shape) * 0.02)) for shape in self.shapes]
        for parameter in parameters:
            parameter.grad = place(torch.randn(parameter.shape) * 0.001)
        return Placed(self.make(parameters))


@dataclass(frozen=True, slots=True)
class Placed:
    """An optimizer's step. What it computes is held by the parameters and the optimizer."""

    step: Callable[[], Any]

    def traced(self, mode: Mode) -> Sequence[torch.Tensor]:
        assert mode == UPDATE
        self.step()
        return ()


def tensors_of(results: Any) -> list[torch.Tensor]:
    """All tensors among the results of a function."""
    return [value for value in pytree.tree_leaves(results) if isinstance(value, torch.Tensor)]


def builtin_entries() -> dict[str, Composite]:
    """The entries of the built-in registry, in its order."""
    return {entry.name: entry for entry in load_catalog([]) if entry.namespace == "ptxla"}


Size = str | list[str]
"""A tensor, such as `1024x3072xf32`, or a list of them."""


def sized(
    entry: str,
    /,
    *,
    below: int = 2,
    constant: Sequence[str] = (),
    uniform: Sequence[str] = (),
    plain: Mapping[str, Any] | None = None,
    **sizes: Size,
) -> Callable[[], Call]:
    """The example call of an entry in other sizes.

    Args:
        below: integers are smaller.
        constant: tensors that need no gradient.
        uniform: tensors of numbers between 0 and 1; others are normally distributed.
        plain: arguments that are no tensors, where the example has another value.
        sizes: tensors by argument. Those without a size are left out.
    """

    def make() -> Call:
        calls = example_calls(builtin_entries()[entry])
        if isinstance(calls, NoExample):
            raise ValueError(f"{entry}: {calls.reason}")
        filled = {
            name: _filled(size, below, name in uniform, name not in constant)
            for name, size in sizes.items()
        }
        others = {
            name: None if isinstance(value, torch.Tensor) else value
            for name, value in calls[0].values.items()
        }
        values = {**others, **filled, **(plain or {})}
        by_keyword = calls[0].keyword_only
        positional = tuple(value for name, value in values.items() if name not in by_keyword)
        return Call(calls[0].function, positional, {name: values[name] for name in by_keyword})

    return make


def _filled(size: Size, below: int, uniform: bool, gradient: bool) -> Any:
    if isinstance(size, list):
        return [_filled(each, below, uniform, gradient) for each in size]
    *dimensions, element_type = size.split("x")
    shape, dtype = tuple(map(int, dimensions)), getattr(torch, PYTORCH_NAMES[element_type])
    if not dtype.is_floating_point:
        return torch.randint(below, shape).to(dtype)
    numbers = torch.rand(shape) if uniform else torch.randn(shape)
    return numbers.to(dtype).requires_grad_(gradient)
