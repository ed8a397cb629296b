"""Frontends: what a tracing framework must offer so that composites can be put into its graphs.

`protocols` says what a frontend offers, one protocol for each part of the project that asks.
`torch_xla` is the one frontend that runs PyTorch programs; `jax` lowers decompositions written in
JAX. What comes before a frontend (registry, generated hooks) and after it (emission, StableHLO)
does not know which one runs.
"""
