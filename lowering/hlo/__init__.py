"""HLO of a recorded graph, made smaller before it becomes StableHLO, and what of it is counted.

Nothing here imports torch.
"""
