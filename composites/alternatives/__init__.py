"""Functions that `alternatives` of the built-in registry name: decompositions and backwards that
are faster than the stock lowering, or need less memory.

There is one module for each family. They are imported when somebody chooses an alternative. Loops
are HLO loops, so that the time to compile does not grow with the operands.
"""
