"""Decompositions and adapters that registry.yaml names.

Decompositions of operators that torch_xla would compute on the CPU have the operator's signature.
Other decompositions take the composite's own operands and attributes, and have an adapter function
that converts the arguments of a call. All of them use only operators that torch_xla lowers.
"""
