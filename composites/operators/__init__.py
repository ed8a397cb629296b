"""What composites mean where no stock lowering says it: PyTorch functions, named in registry.yaml.

Some stand for operators whose stock lowering is a fallback to the CPU and have the operator's
signature; others take the composite's own operands and attributes, and come with the function that
adapts a caller's arguments to them. All are made of operators that torch_xla lowers.
"""
