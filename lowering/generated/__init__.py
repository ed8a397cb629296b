"""Hooks generated from the built-in registry.yaml; see `composites codegen --help`."""
