"""The consumers of StableHLO, with passes for each consumer, and operations that it does not take.

The version of the consumer that `title` names has refused each of the operations.
"""

from dataclasses import dataclass, field

from composites.errors import did_you_mean

from .errors import OptionError
from .module import Module
from .passes.arithmetic import (
    legalize_divisions,
    legalize_remainders,
    legalize_rounds,
    legalize_signs,
)
from .passes.chlo import legalize_chlo
from .passes.comparisons import narrow_comparisons, widen_unsigned_comparisons
from .passes.compute_splats_as_scalars import compute_splats_as_scalars
from .passes.convolutions import legalize_batch_groups, pad_dilated_inputs
from .passes.decompositions import inline_f64_composites
from .passes.expand_sorts import expand_sorts
from .passes.expand_triangular_solves import expand_triangular_solves
from .passes.gradients import expand_batch_norm_grad, expand_select_and_scatter
from .passes.narrow_arithmetic import narrow_arithmetic
from .passes.products import multiply_bytes_as_f32, order_contractions
from .passes.reductions import legalize_reduce_inits, reduce_booleans_as_i32, widen_byte_sums
from .passes.scatters import (
    expand_scatter_additions,
    flatten_scatter_indices,
    narrow_scatter_indices,
)
from .passes.split_complex_numbers import split_complex_numbers
from .passes.use_booleans import use_booleans
from .pipeline import Pass
from .refusals import IREE, LITERT, Refused, refuse


@dataclass(frozen=True)
class Target:
    """A consumer of StableHLO."""

    name: str
    title: str
    """The name of the consumer, with the version that was tried."""
    passes: tuple[Pass, ...]
    """The passes, in order."""
    refused: Refused = field(default_factory=dict)
    """The predicates, by name, of operations that the consumer refuses even after the passes."""
    native: tuple[str, ...] = ()
    """The prefixes of the names of composites that the consumer has operators for."""

    def check(self, module: Module) -> Module:
        """The module itself, if the target takes it.

        Raises:
            UnsupportedOperationError: the target refuses an operation; the message locates it.
        """
        refuse(module.ir, self.title, self.refused, self.native)
        return module


_FOR_ALL: tuple[Pass, ...] = (
    legalize_chlo,
    expand_batch_norm_grad,
    expand_select_and_scatter,
    expand_triangular_solves,
    widen_byte_sums,
)
_FOR_IREE: tuple[Pass, ...] = (
    inline_f64_composites,
    flatten_scatter_indices,
    narrow_scatter_indices,
    compute_splats_as_scalars,
)
_FOR_LITERT: tuple[Pass, ...] = (
    legalize_reduce_inits,
    legalize_divisions,
    legalize_remainders,
    legalize_rounds,
    legalize_signs,
    expand_sorts,
    use_booleans,
    reduce_booleans_as_i32,
    widen_unsigned_comparisons,
    narrow_comparisons,
    narrow_arithmetic,
    split_complex_numbers,
    expand_scatter_additions,
    flatten_scatter_indices,
    legalize_batch_groups,
    pad_dilated_inputs,
    order_contractions,
    multiply_bytes_as_f32,
)
TARGETS = {
    target.name: target
    for target in (
        Target("xla", "XLA", ()),
        Target("cuda", "XLA on NVIDIA's GPUs", ()),
        Target(
            "portable",
            "a portable program",
            (*_FOR_ALL, *_FOR_LITERT, narrow_scatter_indices, compute_splats_as_scalars),
        ),
        Target("iree", "IREE 3.13", (*_FOR_ALL, *_FOR_IREE), IREE),
        Target("litert", "LiteRT 2.3", (*_FOR_ALL, *_FOR_LITERT), LITERT, ("aten.", "tfl.")),
    )
}
"""The targets by name. All targets take a `portable` program."""


def target_passes(name: str) -> list[Pass]:
    """The passes that change a program to a form that a target takes, and then check it.

    Args:
        name: a key of `TARGETS`.

    Raises:
        OptionError: the target does not exist.
    """
    target = TARGETS.get(name) if isinstance(name, str) else None
    if target is None:
        hint = did_you_mean(name, list(TARGETS)) if isinstance(name, str) else ""
        raise OptionError(f"there is no target {name!r}{hint} (there are {', '.join(TARGETS)})")
    return [*target.passes, target.check] if target.refused else [*target.passes]
