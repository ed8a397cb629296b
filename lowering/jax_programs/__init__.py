"""Composites in calls that JAX programs make themselves, without a line in the program.

The code of functions of `jax.nn`, flax and optax is exchanged for code that tries an entry first.
Nothing else of the project imports this package, so that it can be removed; only `composites.jax`,
JAX's entry point and `registry.yaml` name it.

| module | what it does |
|---|---|
| `plugin` | turns on the entries of XLA_COMPOSITE_OP when JAX starts its devices |
| `activation` | which entries are on |
| `replacing` | the code of a function, exchanged and put back |
| `catching` | lets the adapters of entries make a composite |
| `caught_calls` | one kind of caught call, whose decomposition is the JAX function |
| `pulling` | JAX's derivative as a function of the operands of a backward |
| `laid_out` | composites whose arrays have another form than those of the call |
| `functions` | the adapters that registries name |
| `reporting` | `composites.jax.stats` and the report at exit |
"""
