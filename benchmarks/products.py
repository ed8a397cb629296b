"""The matrix products of a program alone, in XLA and in PyTorch: where much of a step's time goes,
and no kernel takes part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from string import ascii_lowercase
from typing import Any

import numpy as np
import torch

from lowering.stablehlo import Module, bindings
from lowering.stablehlo.bindings import DotDimensions
from lowering.stablehlo.comparison.timing import times_in_turns
from lowering.stablehlo.dtypes import static_tensor
from lowering.stablehlo.symbols import executions, functions

DOT = "stablehlo.dot_general"
SMALLEST = 1 << 20
"""Products of fewer multiplications are left out."""
IN_A_RUN = 5
"""So often a product is computed in a run. A run of XLA has fresh memory for its result, which
Linux clears; in a step, this is not so for each product. PyTorch takes memory for each, in a step
too."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product of two f32 tensors."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    dimensions: DotDimensions

    @property
    def equation(self) -> str:
        """As `torch.einsum` has it: batch dimensions come first, then those of the left, then those
        of the right."""
        letters = iter(ascii_lowercase)
        left, right = [""] * len(self.left), [""] * len(self.right)
        batch, contracted = (
            [(one, other, next(letters)) for one, other in zip(ones, others, strict=True)]
            for ones, others in (
                (self.dimensions.left_batch, self.dimensions.right_batch),
                (self.dimensions.left_contracting, self.dimensions.right_contracting),
            )
        )
        for one, other, letter in (*batch, *contracted):
            left[one] = right[other] = letter
        result = [letter for _, _, letter in batch]
        for side in (left, right):
            for place, letter in enumerate(side):
                if not letter:
                    side[place] = next(letters)
                    result.append(side[place])
        return f"{''.join(left)},{''.join(right)}->{''.join(result)}"

    @property
    def multiplications(self) -> int:
        contracted = (self.right[place] for place in self.dimensions.right_contracting)
        batch = (self.right[place] for place in self.dimensions.right_batch)
        both = np.prod([*contracted, *batch], dtype=int)
        return int(np.prod(self.left, dtype=int) * np.prod(self.right, dtype=int) // both)


def products_of(module: Module) -> Counter[Product]:
    """The products of f32, and how often a program has each. One in a loop counts once."""
    found: Counter[Product] = Counter()
    times = executions(module.ir)
    for name, function in functions(module.ir).items():
        for operation in bindings.find_operations(function, DOT):
            left, right = (static_tensor(str(each.type)) for each in operation.operands)
            if left is None or right is None or {left[1], right[1]} != {np.dtype("float32")}:
                continue
            product = Product(left[0], right[0], bindings.dot_dimensions(operation))
            if product.multiplications >= SMALLEST:
                found[product] += times[name]
    return found


def times_of_products(module: Module, seconds: float) -> tuple[float, float]:
    """Seconds that the products of a program take alone, in XLA and in PyTorch.

    Args:
        seconds: for both sides of each distinct product, about.
    """
    total = [0.0, 0.0]
    for product, count in products_of(module).items():
        for side, found in enumerate(_times(product, seconds)):
            total[side] += count * found
    return total[0], total[1]


def _times(product: Product, seconds: float) -> Iterator[float]:
    import jax

    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape, np.float32) for shape in (product.left, product.right)]
    numbers = product.dimensions
    contracting = numbers.left_contracting, numbers.right_contracting
    batch = numbers.left_batch, numbers.right_batch
    placed = list(map(jax.numpy.asarray, arrays))
    tensors = list(map(torch.from_numpy, arrays))

    def multiplied(left: Any, right: Any) -> Any:
        return jax.lax.dot_general(left, right, (contracting, batch))

    def several(left: Any, right: Any) -> Any:
        def again(_: Any, before: tuple[Any, Any]) -> tuple[Any, Any]:
            left, result = before
            # Nothing is added, but the compiler cannot know, and has to multiply again.
            left = left.at[(0,) * left.ndim].add(0 * result[(0,) * result.ndim])
            return left, multiplied(left, right)

        return jax.lax.fori_loop(1, IN_A_RUN, again, (left, multiplied(left, right)))[1]

    compiled = jax.jit(several)

    def in_xla() -> Any:
        return compiled(*placed).block_until_ready()

    def in_pytorch() -> None:
        for _ in range(IN_A_RUN):
            torch.einsum(product.equation, *tensors)

    runs = times_in_turns([in_xla, in_pytorch], seconds / 2)
    return (median(times) / IN_A_RUN for times in runs)
