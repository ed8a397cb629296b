"""`diagnose`: a whole program on a device and on a reference, one composite after the other.

module, cleaned
    -> parts      `@main` in pieces: each composite by itself, and the operations between them
    -> devices    compilers of a piece: jax's platforms, kernels, IREE, LiteRT, OpenVINO
    -> diagnose   runs each piece on both, and keeps the values that later pieces need
    -> clock      times each piece on the device
    -> results    data, JSON, node data of Model Explorer, a table

`bisection` runs whole programs with subsets of their kernels.
"""
