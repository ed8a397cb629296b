"""Calls that the alternatives take, for `composites verify`, by kind: more than one block, and what
is left over."""
