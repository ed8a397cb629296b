"""Contracts: the properties of each version of a composite on which compilers may rely.

model -> lock (a file), changes (between two locks)

Consumers read locks too, so this package does not import torch. `composites.registry.contracts`
describes the entries of a registry, and `lowering.locking` adds hashes of their decompositions.
"""
