"""Exports: `api` is `composites.export`, `tracing` records a step, `program` is what comes out."""
