"""What became of the calls that JAX programs made themselves."""

from __future__ import annotations

import logging
import sys

from lowering.activation import catalog
from lowering.jax_entries.statistics import statistics
from lowering.jax_programs import activation
from lowering.stats.collect import collected, report_of_at_exit
from lowering.stats.data import Stats

log = logging.getLogger("composites")


def stats() -> Stats:
    """What became of the calls of JAX functions that entries catch in this process.

    A call is counted when it is traced. `jax.jit` traces what it knows from an earlier call of
    equal types no second time.
    """
    return collected(statistics, activation.active())


def report_at_exit() -> None:
    """What XLA_COMPOSITE_LOG and XLA_COMPOSITE_STATS ask for when the process ends."""
    report_of_at_exit(stats, _explain)


def _explain() -> None:
    idle = set(stats().idle)
    for counted in statistics.entries.values():
        if counted.named and catalog().label(counted.entry) in idle:
            for target, _ in counted.entry.jax:
                module = target.partition(":")[0]
                if module not in sys.modules:
                    place = (counted.entry.qualified, module, target)
                    log.info("%s: %s was not imported, so %s is not called", *place)
