"""What composites mean where no stock lowering says it: PyTorch functions, traced when lowered."""
