"""PyTorch functions that registry.yaml names as decompositions and adapters.

Some implement operators that torch_xla would compute on the CPU, and have the operator's signature.
Others take the composite's own operands and attributes, and come with an adapter function that
converts the caller's arguments. All of them use only operators that torch_xla lowers.
"""
