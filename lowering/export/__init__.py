"""Exports: `api` has `composites.export`, `tracing` records a step, and `program` is the result."""
