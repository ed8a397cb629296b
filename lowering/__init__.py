"""Lowering of composites: code generation, hooks, emission, frontends and StableHLO passes.

The package itself imports nothing, so `import lowering.stablehlo` works without torch.
"""
