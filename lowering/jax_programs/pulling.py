"""The gradient of a JAX function as a function of the operands of a backward.

JAX's own derivative is traced as one program: from operands and gradients to results and the
gradients of operands. A backward takes some of the operands, and possibly results, such as the
output of softmax. The gradients must not depend on other values.
"""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal as JaxprLiteral
from jax.extend.core import Var

from composites.errors import LoweringError
from lowering.frontends.jax.composite_call import constant, on_selected, trace
from lowering.frontends.jax.internals import run_equation
from lowering.jax_entries.calls import Source

Arrays = Callable[..., list[Any]]


class NotExpressible(LoweringError):
    """The gradient needs an array that the backward does not take."""


def pulled_back(
    function: Arrays,
    operands: Sequence[Any],
    grads: Sequence[Any | None],
    needed: Sequence[bool],
    sources: Sequence[Source],
) -> Arrays:
    """The gradients of the needed operands, as a function of `sources`.

    Args:
        operands: the types of the function's operands.
        grads: for each result, the type of its gradient, or None if the gradient is zero.

    Raises:
        NotExpressible: the gradient needs other values.
    """
    count = len(operands)

    def program(*values: Any) -> list[Any]:
        inputs, cotangents = values[:count], list(values[count:])

        def differentiated(*operands: Any) -> tuple[list[Any], list[Any]]:
            results = function(*operands)
            return [r for r, g in zip(results, grads, strict=True) if g is not None], results

        selected = on_selected(differentiated, inputs, needed)
        _, pull, results = jax.vjp(selected, *compress(inputs, needed), has_aux=True)
        return [*results, *pull(cotangents)]

    traced = trace(program, [*operands, *(g for g in grads if g is not None)])
    return _cut(traced, sources, count, len(grads))


def _cut(traced: Any, sources: Sequence[Source], operands: int, results: int) -> Arrays:
    """The last results of a traced function, as a function of its intermediate values."""
    jaxpr = traced.jaxpr
    positions: dict[Any, int] = {}
    by_kind = {"grad": jaxpr.invars[operands:], "operand": jaxpr.invars, "result": jaxpr.outvars}
    for position, source in enumerate(sources):
        atom = None if source.kind == "further" else by_kind[source.kind][source.number]
        if isinstance(atom, Var):
            positions.setdefault(atom, position)
    outputs = jaxpr.outvars[results:]
    needed = {atom for atom in outputs if isinstance(atom, Var)}
    equations = []
    for equation in reversed(jaxpr.eqns):
        if any(v in needed and v not in positions for v in equation.outvars):
            equations.append(equation)
            needed.update(atom for atom in equation.invars if isinstance(atom, Var))
    equations.reverse()
    if any(v in needed and v not in positions for v in jaxpr.invars):
        raise NotExpressible("the gradient reads a value that the backward does not take")

    def evaluate(*values: Any) -> list[Any]:
        by_atom = {atom: values[position] for atom, position in positions.items()}

        def read(atom: Any) -> Any:
            if isinstance(atom, JaxprLiteral):
                return constant(atom.val) if np.ndim(atom.val) else atom.val
            return by_atom[atom]

        for equation in equations:
            computed = run_equation(equation, [read(atom) for atom in equation.invars])
            by_atom = {**dict(zip(equation.outvars, computed, strict=True)), **by_atom}
        return [jnp.asarray(read(atom), atom.aval.dtype) for atom in outputs]

    return evaluate
