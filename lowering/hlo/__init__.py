"""HLO of a recorded graph: made smaller before it becomes StableHLO, and counted.

Nothing here imports torch.
"""
