"""JAX: decompositions that are written in JAX, and composites in JAX programs.

`functions` lowers `jax:` decompositions for the graphs of a frontend. `composite_call` is the
primitive that a composite is in a JAX program. `internals` is the only module that uses private
interfaces of JAX.
"""
