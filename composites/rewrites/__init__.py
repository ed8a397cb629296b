"""Rewrites: calls that are another call, which an entry of registry.yaml catches.

One takes the arguments of what is caught and calls PyTorch with others. It raises
UnsupportedCallError for the calls that it leaves alone.
"""
