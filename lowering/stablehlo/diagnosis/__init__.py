"""`diagnose`: a whole program on a device and on a reference, one composite after the other.

module, cleaned
    -> parts      `@main` in pieces: each composite by itself, and the operations between them
    -> devices    compilers of a piece: jax's platforms, kernels, IREE, LiteRT
    -> diagnose   runs each piece on both, with the values that are still needed
    -> results    data, JSON, node data of Model Explorer, a table
"""
