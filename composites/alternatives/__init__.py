"""Functions that `kernels.yaml` names for the built-in registry: decompositions and gradients that
are faster than the stock lowering, or need less memory.

There is one module for each family. They are imported when an alternative is chosen. Loops are HLO
loops, so that the time to compile does not grow with the operands.
"""
