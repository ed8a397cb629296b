"""HLO of a recorded graph, made smaller before it becomes StableHLO. Nothing here imports torch."""
