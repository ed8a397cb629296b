"""The meaning of an entry in one frontend: its function, its alternatives, its backward, and its
node in the graph."""

import logging
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from composites import torch_internals
from composites.errors import UnsupportedCallError
from composites.functions import find_function
from composites.registry import model
from composites.registry.model import STOCK, Composite
from lowering.dispatch.call import CallForm, CallSpec
from lowering.dispatch.reads import Key, Reads
from lowering.dispatch.statistics import EntryStatistics, written_operands
from lowering.frontends.protocols import Frontend, Kernel, Seed
from lowering.frontends.thread_flag import ThreadFlag

log = logging.getLogger("composites")

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""The types of tensors that a composite takes: no subclass, which may compute something else."""

Operands = Sequence[torch.Tensor | None]
"""Tensors in the composite's order; None for an absent operand."""

Gradients = list[torch.Tensor | None]
"""A gradient for each operand; None where no gradient is needed."""

TensorMeta = tuple[torch.Size, torch.dtype]
"""Shape and dtype of a tensor."""


def meta_tensor(type_: TensorMeta) -> torch.Tensor:
    """A tensor without data that has a shape and a dtype."""
    shape, dtype = type_
    return torch.empty(shape, dtype=dtype, device="meta")


@dataclass(frozen=True, slots=True)
class ExplicitBackward:
    """A backward that is a separate entry: a function of gradients and saved tensors."""

    entry: Composite
    hook: Kernel
    """The generated hook, with the decomposition's signature. It returns None if it declines a
    call."""
    parameters: tuple[str, ...]

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """The results of the entry for values by name; None if its hook declines the call."""
        return self.hook(**{name: values[name] for name in self.parameters if name in values})


@dataclass(frozen=True, slots=True)
class ActiveEntry:
    """An entry in one frontend, for one set of active entries."""

    form: CallForm
    frontend: Frontend
    statistics: EntryStatistics
    native: Kernel
    """The stock kernel at the dispatch key where the operator is caught, or the Python function
    that was caught."""
    chosen: tuple[model.Kernel, ...] = ()
    """The alternatives that may take calls."""
    backward: ExplicitBackward | None = None
    derived: dict[Hashable, Any] = field(default_factory=dict)
    """For a derived backward: computations, or Fallbacks, by the key of the backward."""
    reads: Reads | None = None
    """Variables that the function under `@composite` reads; None for the entry of a registry."""
    lowering: ThreadFlag = field(default_factory=ThreadFlag)
    """True while this thread is inside the entry's decomposition. Calls of its operator or function
    then go to the stock kernel or the original function."""

    @property
    def entry(self) -> Composite:
        return self.form.entry

    @property
    def function(self) -> Kernel:
        """The composite's meaning, as a function of tensors for `CallSpec.call`."""
        decomposition = self.entry.decomposition
        if decomposition.target is None or decomposition.kind == "jax":
            return self.native
        return find_function(decomposition.target)

    def watching_mode(self) -> str | None:
        """The reason why a call that runs belongs to the stock lowering: a dispatch mode of the
        program, such as FlopCounterMode, has to see its operators. None if no mode is on."""
        mode = torch_internals.dispatch_mode()
        if mode is None or not self.frontend.graph.runs:
            return None
        return f"a dispatch mode is on ({mode})"

    @property
    def symbol(self) -> str:
        """Name of the node in the frontend's graph. torch requires the form `namespace::name`."""
        entry = self.form.entry
        return f"{entry.namespace}::{entry.composite}"

    def read_now(self, key: Sequence[Hashable]) -> Key:
        """The values that the function reads from outside; `key` is the key of the arguments."""
        return () if self.reads is None else self.reads.now(_owner(key))

    def check_reads(self, key: Sequence[Hashable], before: Key) -> None:
        """Check that the function reads the same values as in an earlier call.

        Raises:
            LoweringError: a value differs.
        """
        if self.reads is not None:
            context = f"{self.entry.location}: {self.entry.qualified}"
            self.reads.check(before, context, _owner(key))

    def refuse_written(self, key: Sequence[Hashable], before: Key) -> str | None:
        """The reason why the function cannot be a composite, if it writes a value that it reads."""
        return None if self.reads is None else self.reads.refuse_written(before, _owner(key))

    def run(
        self, spec: CallSpec, autocast: torch.dtype | None, *operands: torch.Tensor | None
    ) -> Any:
        """Run the composite's meaning on other operands, with the autocast of the original call."""
        with self.frontend.tracing.autocast(autocast):
            return self.entry.exposed(spec.call(self.function, *operands))

    def insert(
        self, symbol: str, operands: Operands, seed: Seed | None, handle: Any, *, results: int
    ) -> Sequence[torch.Tensor]:
        """Insert a computation with a number of results. Absent operands are left out, and the seed
        comes last."""
        present = [t for t in operands if t is not None]
        if seed is not None:
            present.append(seed.state)
        graph = self.frontend.graph
        insert = graph.insert if results == 1 else graph.insert_several
        return insert(symbol, present, handle)

    # ---- alternatives to the decomposition ----

    def candidates(self, spec: CallSpec) -> Iterator[model.Kernel]:
        """Yield the chosen alternatives whose conditions hold for a call, in their order.

        Raises:
            LoweringError: a condition cannot be evaluated for the call.
        """
        shared = self.frontend.graph.is_shared
        chosen = [kernel for kernel in self.chosen if shared or not kernel.is_for_shared]
        if not chosen:
            return
        described = spec.described()
        for kernel in chosen:
            owner = f"{kernel.location}: {self.entry.qualified}: {kernel.name}"
            try:
                with torch_internals.for_all_sizes():
                    unmet = described.unmet(kernel.when, owner)
            except UnsupportedCallError as error:
                unmet = f"{owner}: {error}"
            if unmet is None:
                yield kernel
            else:
                self.decline(kernel, unmet, spec.operands)

    def decline(self, alternative: model.Kernel, reason: str, operands: Sequence[Any]) -> None:
        """Record that a call uses another decomposition, and the reason."""
        if alternative.is_automatic:
            return  # nobody chose it
        if self.statistics.decline(alternative.name, reason):
            log.info(
                "%s=%s does not take %s: %s",
                self.entry.qualified, alternative.name, written_operands(operands), reason,
            )  # fmt: skip

    def take(self, alternative: model.Kernel | None, *, backward: bool = False) -> None:
        """Note which decomposition a computation has."""
        is_automatic = alternative is not None and alternative.is_automatic
        if all(kernel.is_automatic for kernel in self.chosen) or (is_automatic and backward):
            return  # as for a call that has no alternative
        name = STOCK
        if alternative is not None and not is_automatic and (backward or alternative.forward):
            name = alternative.name
        self.statistics.decompositions[f"{name}, backward" if backward else name] += 1


def _owner(key: Sequence[Hashable]) -> type | None:
    """The class of the object whose method is called; None if the function is not a method."""
    return key[0] if key and isinstance(key[0], type) else None
