"""Hooks into PyTorch: `install` works on the dispatcher, `patches` replaces Python functions."""
