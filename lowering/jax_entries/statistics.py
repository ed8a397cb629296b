"""Counts of the calls in JAX programs of this process."""

from lowering.dispatch.statistics import Statistics

statistics = Statistics()
"""The calls of JAX functions that became composites, and the reasons why other calls did not."""
