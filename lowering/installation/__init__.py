"""Hooks into PyTorch: `install` into the dispatcher, `patches` in place of Python functions."""
