"""HLO of a recorded graph: made smaller before it becomes StableHLO, and counted.

No module of this package imports torch.
"""
