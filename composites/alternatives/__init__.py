"""Functions that `alternatives` of the built-in registry name: decompositions and backwards that are
faster or need less memory than the stock lowering.

There is one module for each family. They are imported when somebody chooses an alternative. Those in
JAX write loops as HLO loops, so that the time to compile does not grow with the operands.
"""
