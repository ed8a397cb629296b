"""Composites for calls in JAX programs, without a change of the program.

The code of functions of `jax.nn`, flax and optax is replaced by code that tries an entry first.
Only `composites.jax`, JAX's entry point and `registry.yaml` refer to this package, so that it can
be removed.

| module | contents |
|---|---|
| `plugin` | turns on the entries of XLA_COMPOSITE_OP when JAX starts its devices |
| `activation` | the entries that are on, and `composites.jax.stats` |
| `replacing` | replaces and restores the code of a function |
| `catching` | composites made by the adapters of entries |
| `caught_calls` | one kind of caught call, whose decomposition is the JAX function |
| `pulling` | JAX's derivative as a function of the operands of a backward |
| `laid_out` | composites whose arrays have another form than the arrays of the call |
| `functions` | the adapters that registries name |
"""
