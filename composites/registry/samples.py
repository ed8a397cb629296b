"""Functions that yield samples of entries and of decompositions to choose."""

from composites.functions import has_function
from composites.registry.model import Composite, Kernel


def samples_of(described: Composite | Kernel) -> str | None:
    """Return the function that yields samples, as `package.module:function`; None if none exists.

    Raises:
        UnusableFunctionError: the module that the file names for samples cannot be imported.
    """
    samples = described.samples
    if samples is None or not described.samples_by_name or has_function(samples):
        return samples
    return None
