"""Decompositions and gradients for the built-in registry, named in `kernels.yaml`, that are faster
than the stock lowering or need less memory.

Each family has one module, which is imported when an alternative is chosen. Loops are HLO loops, so
that compile time does not grow with the operands.
"""
