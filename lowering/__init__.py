"""How composites are lowered: code generation, hooks, emission, frontends, StableHLO passes.

This package imports nothing by itself, so `import lowering.stablehlo` works without torch.
"""
