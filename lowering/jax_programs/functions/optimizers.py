"""Updates of optax's optimizers.

Each call of `optax.adamw(…)` makes new functions, with the numbers in their variables.
`optax.adam`, `adamw`, `nadam`, `nadamw`, `lamb` and other optimizers contain the functions of
`scale_by_adam`; `optax.lion` contains the functions of `scale_by_lion`, and `optax.sgd` with
momentum the functions of `trace`.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from composites.errors import UnsupportedCallError
from lowering.jax_programs.functions.arguments import has_floats


class _Rule(ABC):
    """The computation of an optax transformation for one parameter, with its numbers."""

    averages: ClassVar[tuple[str, ...]]
    """The fields of the state that have an array for each parameter."""
    numbers: ClassVar[tuple[str, ...]]
    """The variables of optax's function that are numbers."""
    flags: ClassVar[tuple[str, ...]] = ()
    """The variables that are True or False."""

    @classmethod
    def from_update(cls, update: Callable[..., Any]) -> Self:
        """The rule of a function of optax: its numbers, its flags, and the types of the numbers."""
        variables = inspect.getclosurevars(update).nonlocals
        if not all(name in variables for name in (*cls.numbers, *cls.flags)):
            raise UnsupportedCallError("this release of optax has other hyperparameters")
        values = [variables[name] for name in cls.numbers]
        for name, value in zip(cls.numbers, values, strict=True):
            if type(value) not in (int, float):
                raise UnsupportedCallError(f"{name} is not a Python number")
        flags = [bool(variables[name]) for name in cls.flags]
        return cls(*values, *flags, tuple(map(type, values)))  # type: ignore[call-arg]

    @property
    @abstractmethod
    def attributes(self) -> Mapping[str, Any]:
        """The attributes of the composite."""

    def shared(self, counts: Sequence[Any]) -> list[Any]:
        """The values that all parameters share.

        Args:
            counts: the number of the step, if the state counts steps.
        """
        return []

    @abstractmethod
    def __call__(self, *arrays: Any) -> list[Any]:
        """The direction and the new averages, from the gradient, the averages and shared values."""


@dataclass(frozen=True)
class _Adam(_Rule):
    b1: float
    b2: float
    eps: float
    eps_root: float
    nesterov: bool
    types: tuple[type, ...]
    """The types of the numbers. 1 and 1.0 are equal, but JAX computes in other types with them."""

    averages: ClassVar[tuple[str, ...]] = ("mu", "nu")
    numbers: ClassVar[tuple[str, ...]] = ("b1", "b2", "eps", "eps_root")
    flags: ClassVar[tuple[str, ...]] = ("nesterov",)

    @property
    def attributes(self) -> Mapping[str, Any]:
        return {"beta1": self.b1, "beta2": self.b2, "eps": self.eps, "eps_root": self.eps_root}

    def shared(self, counts: Sequence[Any]) -> list[Any]:
        """The divisors of the averages and, for Nesterov's momentum, of the gradient.

        All parameters share the divisors, and so do all composites. If each composite had its own
        divisor, XLA would multiply with the reciprocal, which differs in last bits.
        """
        import optax

        (step,) = counts
        if not self.nesterov:
            return [1 - self.b1**step, 1 - self.b2**step]
        after = optax.safe_increment(step)
        return [1 - self.b1**after, 1 - self.b2**step, 1 - self.b1**step]

    def __call__(self, *arrays: Any) -> list[Any]:
        import jax.numpy as jnp

        grad, exp_avg, exp_avg_sq, avg_divisor, sq_divisor, *grad_divisors = arrays
        average = (1 - self.b1) * grad**1 + self.b1 * exp_avg
        square = (1 - self.b2) * grad**2 + self.b2 * exp_avg_sq
        mean = average / avg_divisor.astype(average.dtype)
        for divisor in grad_divisors:
            mean = self.b1 * mean + (1 - self.b1) * (grad / divisor.astype(grad.dtype))
        variance = square / sq_divisor.astype(square.dtype)
        direction = mean / (jnp.sqrt(variance + self.eps_root) + self.eps)
        return [direction, average.astype(exp_avg.dtype), square.astype(exp_avg_sq.dtype)]


@dataclass(frozen=True)
class _Lion(_Rule):
    b1: float
    b2: float
    types: tuple[type, ...]

    averages: ClassVar[tuple[str, ...]] = ("mu",)
    numbers: ClassVar[tuple[str, ...]] = ("b1", "b2")

    @property
    def attributes(self) -> Mapping[str, Any]:
        return {"beta1": self.b1, "beta2": self.b2}

    def __call__(self, *arrays: Any) -> list[Any]:
        import jax.numpy as jnp

        grad, exp_avg = arrays
        direction = jnp.sign((1.0 - self.b1) * grad + self.b1 * exp_avg)
        average = (1 - self.b2) * grad**1 + self.b2 * exp_avg
        return [direction, average.astype(exp_avg.dtype)]


@dataclass(frozen=True)
class _Trace(_Rule):
    decay: float
    nesterov: bool
    types: tuple[type, ...]

    averages: ClassVar[tuple[str, ...]] = ("trace",)
    numbers: ClassVar[tuple[str, ...]] = ("decay",)
    flags: ClassVar[tuple[str, ...]] = ("nesterov",)

    @property
    def attributes(self) -> Mapping[str, Any]:
        return {"decay": self.decay, "nesterov": self.nesterov}

    def __call__(self, *arrays: Any) -> list[Any]:
        grad, trace = arrays
        sums = grad + self.decay * trace
        direction = grad + self.decay * sums if self.nesterov else sums
        return [direction, sums.astype(trace.dtype)]


def scale_by_adam(composite: Any, updates: Any, state: Any, params: Any = None) -> Any:
    """The update of `optax.scale_by_adam`: one composite for each parameter, or none at all."""
    return _for_each(composite, _Adam, updates, state, params)


def scale_by_lion(composite: Any, updates: Any, state: Any, params: Any = None) -> Any:
    """The update of `optax.scale_by_lion`."""
    # Releases before 0.2.6 have only this mode.
    if inspect.getclosurevars(composite.original).nonlocals.get("mode", "hard") != "hard":
        raise UnsupportedCallError("the direction is not a sign")
    return _for_each(composite, _Lion, updates, state, params)


def trace(composite: Any, updates: Any, state: Any, params: Any = None) -> Any:
    """The update of `optax.trace`."""
    return _for_each(composite, _Trace, updates, state, params)


def _for_each(composite: Any, kind: type[_Rule], updates: Any, state: Any, params: Any) -> Any:
    import jax

    rule, fields = kind.from_update(composite.original), kind.averages
    if not set(fields) <= set(getattr(state, "_fields", ())):
        raise UnsupportedCallError("the state is not of optax's type")
    grads, structure = jax.tree.flatten(updates)
    averages = (_like(getattr(state, field), structure) for field in fields)
    parameters = list(zip(grads, *averages, strict=True))
    _check(composite, rule, parameters, state)
    # Without parameters, the update only counts the step.
    _, after = composite.original((), state._replace(**dict.fromkeys(fields, ())), params)
    shared = rule.shared(_counts(after))
    calls = [
        composite.prepared(*arrays, *shared, **rule.attributes, decomposition=rule)
        for arrays in parameters
    ]
    results = [call() for call in calls]
    columns = (structure.unflatten([r[n] for r in results]) for n in range(1 + len(fields)))
    directions, *new = columns
    return directions, after._replace(**dict(zip(fields, new, strict=True)))


def _counts(state: Any) -> list[Any]:
    return [state.count] if "count" in state._fields else []


def _like(averages: Any, structure: Any) -> list[Any]:
    import jax

    leaves, tree = jax.tree.flatten(averages)
    if tree != structure:
        raise UnsupportedCallError("gradients and averages are in different trees")
    return list(leaves)


def _check(composite: Any, rule: _Rule, parameters: list[tuple[Any, ...]], state: Any) -> None:
    """Check that the composite computes the same as optax."""
    import optax

    fields = rule.averages

    def optax_update(grad: Any, *state_arrays: Any) -> list[Any]:
        averages, counts = state_arrays[: len(fields)], state_arrays[len(fields) :]
        names = (*fields, "count") if counts else fields
        changes = dict(zip(names, (*averages, *counts), strict=True))
        direction, after = composite.original(grad, state._replace(**changes), None)
        return [direction, *(getattr(after, field) for field in fields)]

    def composite_update(grad: Any, *state_arrays: Any) -> list[Any]:
        averages, counts = state_arrays[: len(fields)], state_arrays[len(fields) :]
        return rule(grad, *averages, *rule.shared([optax.safe_increment(c) for c in counts]))

    checked = set()
    for arrays in parameters:
        if not all(map(has_floats, arrays)):
            raise UnsupportedCallError("a gradient or an average is not an array of floats")
        if len({array.shape for array in arrays}) > 1:
            raise UnsupportedCallError("a gradient and its averages have different shapes")
        types = tuple(array.dtype for array in arrays)
        if types not in checked and not composite.is_same(
            optax_update, composite_update, *arrays, *_counts(state)
        ):
            raise UnsupportedCallError("optax has other operations for these numbers and types")
        checked.add(types)
