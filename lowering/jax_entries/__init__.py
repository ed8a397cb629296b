"""The entries of registries as functions of JAX arrays, for `composites.jax`.

A call is read as a `CallSpec`, as in PyTorch programs, so that conditions, operands and attributes
are the same. `definition` says what an entry computes, and `calls` makes one composite for each
kind of call, with its derivatives and what vmap makes of it. `functions` is what users see. Nothing
here imports torch_xla.
"""
