"""Frontends: the interface of a tracing framework into whose graphs composites can be inserted.

`protocols` defines the interface, with one protocol for each part of the project that uses it.
`torch_xla` runs and exports PyTorch programs, and `fx` exports them without torch_xla.
`jax` lowers decompositions that are written in JAX, and `aten_in_jax` has the rules by which aten
operators run on JAX arrays. The stages before a frontend (registry, generated hooks) and after it
(emission, StableHLO) do not depend on the frontend that runs.
"""
