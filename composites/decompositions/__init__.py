"""Decompositions of built-in composites whose operator torch_xla has no lowering for.

Each is a PyTorch function with the operator's signature, made of operators that torch_xla lowers,
and named in registry.yaml. The stock lowering of these operators is a fallback to the CPU.
"""
