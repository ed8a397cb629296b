"""The StableHLO of one example call of an entry. The call is recorded and not run.

`composites show` prints it. The calls are those of `lowering.sample_calls`, as in locks.
"""

import warnings

from composites.registry.catalog import Catalog
from composites.registry.model import Composite
from lowering import activation
from lowering.locking import recorded_example
from lowering.sample_calls import NoCalls, example_calls
from lowering.stablehlo import rename_module


def example_text(entry: Composite, catalog: Catalog, *, gradients: bool = False) -> str | NoCalls:
    """The StableHLO of a call that the entry catches, with only the entry and its backward turned
    on.

    Args:
        gradients: the gradients of the call instead, for an entry without an operator, which is a
            backward.

    Raises:
        CompositesError: the entry cannot be turned on, or its decomposition fails.
        MissingPackageError: torch_xla is not installed.
    """
    frontend = activation.backend().frontend
    called = catalog.forward_of(entry) if entry.gradients else entry
    if called is None:
        return NoCalls("no entry names it as its backward")
    examples = example_calls(called)
    if isinstance(examples, NoCalls):
        return examples
    leaves = None if gradients or entry.gradients else 0
    with activation.all_off(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, about examples that do not fit a backward
        module = recorded_example(frontend, called, catalog, examples[0], leaves)
        return rename_module(module, name=entry.name).text
