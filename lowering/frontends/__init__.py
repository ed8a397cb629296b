"""Frontends: what a tracing framework must provide so that composites can be put into its graphs.

`protocols` defines what a frontend provides, with one protocol for each part of the project that
uses it. `torch_xla` runs and exports PyTorch programs, and `fx` exports them without torch_xla.
`jax` lowers decompositions that are written in JAX, and `aten_in_jax` has the rules by which aten
operators run on JAX arrays. The stages before a frontend (registry, generated hooks) and after it
(emission, StableHLO) do not know which frontend runs.
"""
