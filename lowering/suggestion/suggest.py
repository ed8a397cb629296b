"""Recording a module's step, and the parts of it that no entry catches.

module, example inputs
    -> the step as HLO, with the call of an operator that each instruction comes from
    -> instructions by operator and by Python function
    -> entries for the functions that are worth one, tried until all of them work
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from composites.errors import CompositesError, MissingPackageError, SuggestionError, installing
from composites.user_code import error_line
from lowering import activation
from lowering.export.optimizers import OptimizerFactory
from lowering.export.tracing import Traced, nothing_kept, trace
from lowering.suggestion.callees import Trained
from lowering.suggestion.draft import Drafting, Suggestion
from lowering.suggestion.recording import StepRecord, record


@dataclass(frozen=True, slots=True)
class SuggestionReport:
    """The operators and functions of a step outside composites, and a draft of entries for them."""

    on: tuple[str, ...]
    """The entries that were on."""
    outside: int
    composites: int
    functions: tuple[Suggestion, ...]
    operators: tuple[Suggestion, ...]
    entries: tuple[str, ...]
    """The names of the draft's entries."""
    draft: str | None
    """A registry file with entries that all work; None if nothing is worth one."""
    after: int | None
    """The number of instructions that stay outside composites with the draft."""


def suggest(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    backward: bool = True,
    optimizer: OptimizerFactory | None = None,
    ops: Sequence[str] | None = None,
) -> SuggestionReport:
    """Report the operators and functions of a step outside composites, and draft entries for them.

    Args:
        backward: whether the step has a backward, which starts at the loss that the module returns,
            or at the sum of its results.
        optimizer: the factory of an optimizer; see `composites.export`.
        ops: entries that are on, as in XLA_COMPOSITE_OP; by default the active ones, or all if none
            is active.

    Raises:
        SuggestionError: the step cannot be recorded.
        ExportError: the step reads values of tensors while it runs.
    """
    trained = Trained(module) if backward or optimizer is not None else None

    def traced() -> Traced:
        frontend, train = activation.backend().frontend, trained is not None
        called = module if trained is None else trained
        try:
            return trace(frontend, called, args, kwargs or {}, train=train, optimizer=optimizer)
        except (CompositesError, MissingPackageError):
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            raise SuggestionError(f"{error_line(error)}the step failed: {text}") from error

    def measure() -> StepRecord:
        frontend = activation.backend().frontend
        if frontend.labels is None:
            raise SuggestionError(
                "suggestions need torch_xla, which records the call that makes each instruction;"
                f" {installing('torch-xla,cli')}"
            )
        with nothing_kept(frontend, module):
            return record(traced, frontend.labels)

    with activation.for_export(ops):
        on = activation.active()
        step = measure()
    drafting = Drafting(step)
    after = drafting.draft(on, measure)
    return SuggestionReport(
        on=on,
        outside=step.outside,
        composites=step.composites,
        functions=tuple(drafting.row(function) for function in step.worked(functions=True)),
        operators=tuple(drafting.row(operator) for operator in step.worked(functions=False)),
        entries=tuple(drafting.entries),
        draft=drafting.text(after) if after else None,
        after=after.outside if after else None,
    )
