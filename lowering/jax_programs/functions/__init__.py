"""Adapters from calls of JAX functions to calls of entries, for the key `jax` of registries.

Each takes the composite as a function of the entry's arguments, followed by the arguments of the
JAX function. It raises UnsupportedCallError for a call that the entry does not have, or to which
the entry and the JAX function give different meanings. JAX is imported inside the adapters, since
registries are also read where it is not needed.
"""
