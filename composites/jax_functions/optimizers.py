"""Updates of optax's optimizers.

`optax.adamw(…)` makes its functions anew, with the numbers in their variables. Those of
`scale_by_adam` are part of `optax.adam`, `adamw`, `nadam`, `nadamw`, `lamb` and others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from composites.errors import UnsupportedCallError


@dataclass(frozen=True)
class _Adam:
    """The numbers of an `optax.scale_by_adam`, and what it computes of one parameter."""

    b1: float
    b2: float
    eps: float
    eps_root: float
    nesterov: bool
    types: tuple[type, ...]
    """Of the numbers. 1 and 1.0 are equal, but JAX computes in other types with them."""

    @classmethod
    def of(cls, update: Callable[..., Any]) -> _Adam:
        variables = inspect.getclosurevars(update).nonlocals
        names = ("b1", "b2", "eps", "eps_root", "nesterov")
        if not all(name in variables for name in names):
            raise UnsupportedCallError("this release of optax has other numbers")
        values = {name: variables[name] for name in names}
        for name in names[:4]:
            if type(values[name]) not in (int, float):
                raise UnsupportedCallError(f"{name} is no number of Python")
        return cls(**values, types=tuple(map(type, values.values())))

    def corrections(self, step: Any) -> list[Any]:
        """The divisors of the averages and, for Nesterov's momentum, of the gradient.

        All parameters share them, and so do all composites. Where each divides by a number of its
        own, XLA multiplies with the reciprocal, which has other last bits.
        """
        import optax

        if not self.nesterov:
            return [1 - self.b1**step, 1 - self.b2**step]
        after = optax.safe_increment(step)
        return [1 - self.b1**after, 1 - self.b2**step, 1 - self.b1**step]

    def __call__(
        self, grad: Any, exp_avg: Any, exp_avg_sq: Any, of_avg: Any, of_sq: Any, of_grad: Any = None
    ) -> list[Any]:
        import jax.numpy as jnp

        average = (1 - self.b1) * grad**1 + self.b1 * exp_avg
        square = (1 - self.b2) * grad**2 + self.b2 * exp_avg_sq
        mean = average / of_avg.astype(average.dtype)
        if of_grad is not None:
            mean = self.b1 * mean + (1 - self.b1) * (grad / of_grad.astype(grad.dtype))
        variance = square / of_sq.astype(square.dtype)
        direction = mean / (jnp.sqrt(variance + self.eps_root) + self.eps)
        return [direction, average.astype(exp_avg.dtype), square.astype(exp_avg_sq.dtype)]


def scale_by_adam(composite: Any, updates: Any, state: Any, params: Any = None) -> Any:
    """The update of `optax.scale_by_adam`: one composite for each parameter, or none at all."""
    import jax

    adam = _Adam.of(composite.original)
    grads, structure = jax.tree.flatten(updates)
    parameters = list(
        zip(grads, _like(state.mu, structure), _like(state.nu, structure), strict=True)
    )
    _check(composite, adam, parameters, state)
    # Without a parameter, the update only counts.
    _, after = composite.original((), state._replace(mu=(), nu=()), params)
    corrections = adam.corrections(after.count)
    calls = [
        composite.prepared(
            *arrays, *corrections,
            beta1=adam.b1, beta2=adam.b2, eps=adam.eps, eps_root=adam.eps_root, decomposition=adam,
        )
        for arrays in parameters
    ]  # fmt: skip
    results = [call() for call in calls]
    directions, mu, nu = (structure.unflatten([r[n] for r in results]) for n in range(3))
    return directions, after._replace(mu=mu, nu=nu)


def _like(averages: Any, structure: Any) -> list[Any]:
    import jax

    leaves, found = jax.tree.flatten(averages)
    if found != structure:
        raise UnsupportedCallError("gradients and averages are in different trees")
    return list(leaves)


def _check(composite: Any, adam: _Adam, parameters: list[tuple[Any, Any, Any]], state: Any) -> None:
    """Check that the composite computes what optax does."""
    import jax.numpy as jnp
    import numpy as np
    import optax
    from jax import Array

    def of_optax(grad: Any, mu: Any, nu: Any, count: Any) -> list[Any]:
        before = state._replace(count=count, mu=mu, nu=nu)
        direction, after = composite.original(grad, before, None)
        return [direction, after.mu, after.nu]

    def of_composite(grad: Any, mu: Any, nu: Any, count: Any) -> list[Any]:
        return adam(grad, mu, nu, *adam.corrections(optax.safe_increment(count)))

    checked = set()
    for arrays in parameters:
        for array in arrays:
            if not isinstance(array, Array | np.ndarray) or not jnp.issubdtype(
                array.dtype, jnp.floating
            ):
                raise UnsupportedCallError("a gradient or an average is no array of floats")
        if len({array.shape for array in arrays}) > 1:
            raise UnsupportedCallError("a gradient and its averages have different shapes")
        types = tuple(array.dtype for array in arrays)
        if types not in checked and not composite.is_same(
            of_optax, of_composite, *arrays, state.count
        ):
            raise UnsupportedCallError("optax has other operations for these numbers and types")
        checked.add(types)
