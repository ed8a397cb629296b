"""The entries of registries as functions of JAX arrays, for `composites.jax`.

A call is read as a `CallSpec`, as in PyTorch programs, so that conditions, operands and attributes
are the same. `definition` has the decomposition of an entry, and `calls` makes one composite for
each kind of call, with its derivatives and its form under vmap. `functions` has the functions for
users. No module of this package imports torch_xla.
"""
