"""Hooks generated from the built-in registry.yaml; see `composites codegen --help`.

They are in the repository so that people can read them, and reviews show what changes.
"""
