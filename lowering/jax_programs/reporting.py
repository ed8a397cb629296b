"""The outcomes of the calls that JAX programs make themselves."""

from lowering.jax_entries.statistics import statistics
from lowering.jax_programs import activation
from lowering.stats.collect import collected
from lowering.stats.data import Stats


def stats() -> Stats:
    """The outcomes of the calls of JAX functions that entries catch in this process.

    A call is counted when it is traced. `jax.jit` does not trace a function again for equal types.
    """
    return collected(statistics, activation.active())
