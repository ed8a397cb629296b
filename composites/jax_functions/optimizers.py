"""Updates of optax's optimizers.

`optax.adamw(…)` makes its functions anew, with the numbers in their variables. Those of
`scale_by_adam` are part of `optax.adam`, `adamw`, `nadam`, `nadamw`, `lamb` and others.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from composites.errors import UnsupportedCallError


@dataclass(frozen=True)
class _OneParameter:
    """`optax.scale_by_adam` of one parameter."""

    settings: tuple[tuple[str, Any], ...]

    def __call__(self, grad: Any, mu: Any, nu: Any, count: Any) -> list[Any]:
        import optax

        state = optax.ScaleByAdamState(count=count, mu=mu, nu=nu)
        direction, state = optax.scale_by_adam(**dict(self.settings)).update(grad, state)
        return [direction, state.mu, state.nu]


def scale_by_adam(composite: Any, updates: Any, state: Any, params: Any = None) -> Any:
    """The update of `optax.scale_by_adam`: one composite for each parameter."""
    import jax
    import optax

    variables = inspect.getclosurevars(composite.original).nonlocals
    names = inspect.signature(optax.scale_by_adam).parameters
    settings = {name: variables[name] for name in names if name in variables}
    grads, structure = jax.tree.flatten(updates)
    mus, nus = _like(state.mu, structure), _like(state.nu, structure)
    _check(settings, grads, mus, nus)
    results = [
        composite(
            grad, mu, nu, state.count,
            beta1=settings["b1"], beta2=settings["b2"], eps=settings["eps"],
            eps_root=settings["eps_root"], nesterov=settings.get("nesterov", False),
            decomposition=_OneParameter(tuple(settings.items())),
        )
        for grad, mu, nu in zip(grads, mus, nus, strict=True)
    ]  # fmt: skip
    # Without a parameter, the update only counts.
    _, after = composite.original((), state._replace(mu=(), nu=()), params)
    directions, mu, nu = (structure.unflatten([r[n] for r in results]) for n in range(3))
    return directions, after._replace(mu=mu, nu=nu)


def _like(averages: Any, structure: Any) -> list[Any]:
    import jax

    leaves, found = jax.tree.flatten(averages)
    if found != structure:
        raise UnsupportedCallError("gradients and averages are in different trees")
    return list(leaves)


def _check(settings: dict[str, Any], *groups: list[Any]) -> None:
    """Check what the composite of each parameter needs, before there is one."""
    import jax
    import jax.numpy as jnp

    for name in ("b1", "b2", "eps", "eps_root"):
        if isinstance(settings[name], bool) or not isinstance(settings[name], int | float):
            raise UnsupportedCallError(f"{name} is no number that is known when JAX traces")
    for arrays in zip(*groups, strict=True):
        if not all(isinstance(a, jax.Array) and jnp.issubdtype(a.dtype, jnp.floating) for a in arrays):
            raise UnsupportedCallError("a gradient or an average is no array of floats")
        if len({array.shape for array in arrays}) > 1:
            raise UnsupportedCallError("a gradient and its averages have different shapes")
