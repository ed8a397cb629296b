"""Linear algebra lowered to operations that XLA compiles for every platform.

JAX calls LAPACK on CPUs and libraries of the device on GPUs, so that a program runs only where it
was lowered. For platforms without such a library, JAX uses operations of StableHLO, loops, and
XLA's own custom calls `Qr`, `ProductOfElementaryHouseholderReflectors` and `Eigh`, which XLA
expands on every platform.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive, jaxpr_as_fun
from jax.interpreters import mlir

from lowering.frontends.jax import internals

_ALL = "all platforms"
"""A platform for which JAX has only the rule below, so that it uses its general rules."""
_ROTATED = 256
"""The largest matrix whose eigenvalues Jacobi rotations compute. JAX has this limit for TPUs."""
_CONFIGURATION = "1,1,100,1e-6"
"""The options of `Eigh`: the lower triangle is read, eigenvalues ascend, and after at most 100
sweeps the part outside of the diagonal has this size. All calls have the same options: XLA treats
calls on equal shapes as one (jaxlib 0.12), and has no other precision."""
_REFINEMENTS = 2

_call_p = Primitive("for_all_platforms")
_call_p.multiple_results = True


def for_all_platforms(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of arrays lower for all platforms. It has no derivative."""

    def call(*operands: Any) -> Any:
        traced, results = jax.make_jaxpr(function, return_shape=True)(*operands)
        # Pass a function instead of a jaxpr: JAX 0.12 requires a rule for effects of a jaxpr.
        run = jaxpr_as_fun(traced)
        leaves = _call_p.bind(*operands, run=run, types=tuple(traced.out_avals))
        return jax.tree.unflatten(jax.tree.structure(results), leaves)

    return call


def _types(*operands: Any, run: Any, types: Sequence[Any]) -> Sequence[Any]:
    return types


_call_p.def_abstract_eval(_types)


def _lower_call(context: Any, *operands: Any, run: Any, types: Sequence[Any]) -> Any:
    inside = internals.for_platform(context, _ALL)
    return mlir.lower_fun(run, multiple_results=True)(inside, *operands)


mlir.register_lowering(_call_p, _lower_call)


def _lower_eigenvalues(context: Any, operand: Any, **parameters: Any) -> Any:
    (operand_type,) = context.avals_in
    if operand_type.shape[-1] > _ROTATED:
        return internals.lower_for_tpu(context, internals.eigenvalues_p, operand, **parameters)

    def run(matrix: Any) -> Any:
        symmetric = matrix if parameters["lower"] else matrix.mT.conj()
        vectors, values = _rotated(symmetric)
        if matrix.dtype in (jnp.float64, jnp.complex128):
            for _ in range(_REFINEMENTS):
                vectors, values = _refined(symmetric, vectors)
        return vectors, values

    return mlir.lower_fun(run, multiple_results=True)(context, operand)


internals.define_for_platform(_ALL, internals.eigenvalues_p, _lower_eigenvalues)


def _rotated(matrix: Any) -> tuple[Any, Any]:
    """Eigenvectors and eigenvalues by XLA's Jacobi rotations, to the precision of f32."""
    value_dtype = jnp.zeros((), matrix.dtype).real.dtype
    results = [
        jax.ShapeDtypeStruct(matrix.shape, matrix.dtype),
        jax.ShapeDtypeStruct(matrix.shape[:-1], value_dtype),
    ]
    call = jax.ffi.ffi_call(
        "Eigh", results, custom_call_api_version=1, legacy_backend_config=_CONFIGURATION
    )
    vectors, values = call(matrix)
    return vectors, values


def _refined(lower: Any, vectors: Any) -> tuple[Any, Any]:
    """Eigenvectors with about twice as many digits, and their eigenvalues.

    Algorithm 1 of Ogita and Aishima, "Iterative refinement for symmetric eigenvalue decomposition",
    Japan J. Indust. Appl. Math. 35 (2018). The vectors of nearly equal eigenvalues are only made
    orthogonal.
    """
    size = lower.shape[-1]
    below = jnp.tril(lower, -1)
    matrix = below + below.mT.conj() + jnp.eye(size) * jnp.real(lower)
    with jax.default_matmul_precision("highest"):
        residual = jnp.eye(size) - vectors.mT.conj() @ vectors
        turned = vectors.mT.conj() @ matrix @ vectors
        values = _real_diagonal(turned) / (1 - _real_diagonal(residual))
        rows, columns = values[..., :, None], values[..., None, :]
        beside = turned * (1 - jnp.eye(size))
        largest = jnp.max(jnp.abs(values), -1)[..., None, None]
        close = 2 * (_length(beside) + largest * _length(residual))
        gaps = columns - rows
        apart = jnp.abs(gaps) > close
        turn = (turned + columns * residual) / jnp.where(apart, gaps, 1)
        vectors = vectors + vectors @ jnp.where(apart, turn, residual / 2)
    order = jnp.argsort(values, -1)
    vectors = jnp.take_along_axis(vectors, order[..., None, :], -1)
    return vectors, jnp.take_along_axis(values, order, -1)


def _real_diagonal(matrix: Any) -> Any:
    return jnp.real(jnp.diagonal(matrix, 0, -2, -1))


def _length(matrix: Any) -> Any:
    """The Frobenius norm of each matrix."""
    return jnp.sqrt(jnp.sum(jnp.abs(matrix) ** 2, (-2, -1), keepdims=True))
