"""Labels in HLO, the nodes of a backward, and reads inside a dispatch mode."""

from __future__ import annotations

import pytest
import torch

from composites import torch_internals
from lowering import activation
from lowering.emission import hlo_proto
from lowering.frontends.errors import ValueReadError
from lowering.hlo.work import work_of


def test_the_innermost_label_is_kept() -> None:
    frontend = activation.backend().frontend
    labels = frontend.labels
    assert labels is not None
    x = torch.ones(3, device="xla")
    with labels.kept(), labels.label("outer"):
        y = torch.sin(x)
        with labels.label("inner"):
            y = torch.cos(y)
        y = torch.exp(y)
    y = torch.tanh(y)
    graph = hlo_proto.Module.FromString(labels.hlo([y]))
    found = {w.instruction.opcode: labels.label_of(w.instruction) for w in work_of(graph)}
    expected = {"sine": "outer", "cosine": "inner", "exponential": "outer", "tanh": None}
    assert {opcode: found[opcode] for opcode in expected} == expected


def test_a_read_of_a_value_is_refused_in_a_dispatch_mode() -> None:
    frontend = activation.backend().frontend
    assert frontend.recording is not None
    assert frontend.labels is not None
    labels = frontend.labels

    def call(overload, arguments, keywords):  # type: ignore[no-untyped-def]
        with labels.refusing_reads():
            return overload(*arguments, **keywords)

    with torch_internals.calls_through(call), frontend.recording.recording():
        x = frontend.tensors.placeholder(torch.ones(4))
        # XLA has no kernel for it, and would compute it on the CPU.
        with pytest.raises(ValueReadError, match="no lowering for this call of aten::histc and"):
            torch.histc(x * 2, bins=3, min=0, max=3)


def test_nodes_of_a_backward_have_the_numbers_of_their_forward() -> None:
    x = torch.ones(3, device="xla", requires_grad=True)
    before = torch_internals.sequence_number()
    y = torch.sin(x)
    after = torch_internals.sequence_number()
    assert after == before + 1
    seen: list[int | None] = []

    def call(overload, arguments, keywords):  # type: ignore[no-untyped-def]
        if overload is torch.ops.aten.cos.default:
            seen.append(torch_internals.running_node())
        return overload(*arguments, **keywords)

    with torch_internals.calls_through(call):
        y.backward(torch.ones(3, device="xla"))
    assert seen == [before]
    assert torch_internals.running_node() is None
