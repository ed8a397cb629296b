"""Adapters from calls of JAX functions to calls of entries, for the key `jax` of registries.

An adapter takes the composite as a function of the entry's arguments, followed by the arguments of
the JAX function. It raises UnsupportedCallError for a call that the entry does not support, or that
means something else for the entry than for the JAX function. Adapters import JAX when they are
called, since registries are also read where JAX is not needed.
"""
