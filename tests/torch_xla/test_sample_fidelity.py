"""Samples of registry.yaml's entries that PyTorch's database does not reach: the bits of stock.

These are modules of transformers, updates of optimizers, and other functions of Python. Results,
gradients and operands that are written to are compared: by their graphs, which run where they
differ. The exhaustive run executes all.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest
import torch
from composites_testing.subjects import Subjects

from composites.registry.catalog import load_catalog
from composites.registry.samples import samples_of
from lowering.sample_calls import Sample
from lowering.verification.runs import evaluate
from lowering.verification.samples import Samples, sources
from lowering.verification.targets import Target, targets_of

ALL = 99
"""Samples of an entry."""
MODES = (torch.enable_grad, torch.no_grad, torch.inference_mode)
CATALOG = load_catalog([])
ENTRIES = {
    target.entry.name: target
    for target in targets_of(tuple(CATALOG), CATALOG)
    if target.alternative is None and samples_of(target.entry) is not None
}
OTHER_BITS = {
    "products whose batch and heads are apart": (
        *("eager_attention", "attention_with_sinks", "scaled_attention"),
    ),
    "stock leaves the graph for the CPU": (
        *("weight_norm", "embedding_bag", "fft_r2c", "fft_c2c", "fft_c2r"),
        *("muon", "zeropower_via_newtonschulz"),
    ),
    "stock reads norms back": ("adafactor",),
    "rounded to bf16 in other places": ("gpt_oss_experts",),
}
"""Why entries have others; their numbers are those of `composites verify`."""
PARTS = 3
"""Of all entries, so that each part is a graph or two."""
COMPARED = ENTRIES.keys() - {name for names in OTHER_BITS.values() for name in names}


def computed(sample: Sample, mode: Callable[[], AbstractContextManager[Any]]) -> Mapping[str, Any]:
    def place(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().to("xla").requires_grad_(tensor.requires_grad)

    with mode():
        values = evaluate(sample, place, sample.function)
    return {f"tensor {number}": tensor for number, tensor in enumerate(values.tensors)}


def tables(target: Target, dtype: str) -> Iterator[Subjects]:
    """The samples of an entry, in each mode of autograd. It may leave some calls alone."""
    (samples,) = sources(target, dtype, ALL)
    assert isinstance(samples, Samples)
    composite = target.entry.composite
    for mode in MODES:
        yield Subjects(
            {sample.text: partial(computed, sample, mode) for sample in samples.samples},
            emits=(),
            may=(composite, f"{composite}_backward"),
            label=f"{target.entry.name}, {mode.__name__}, ",
        )


@pytest.mark.parametrize(
    "dtype",
    [
        "f32",
        pytest.param("bf16", marks=pytest.mark.slow),
        pytest.param("f32", marks=pytest.mark.exhaustive, id="run-f32"),
        pytest.param("bf16", marks=pytest.mark.exhaustive, id="run-bf16"),
    ],
)
@pytest.mark.parametrize("part", range(PARTS))
def test_samples_have_the_bits_of_stock(
    all_same_as_stock: Callable[..., Any], part: int, dtype: str
) -> None:
    made = {name: [*tables(ENTRIES[name], dtype)] for name in sorted(COMPARED)[part::PARTS]}
    nodes = all_same_as_stock(*(table for each in made.values() for table in each)).ours.nodes
    for name, each in made.items():
        entry = ENTRIES[name].entry
        forward, backward = f"ptxla.{entry.composite}", f"ptxla.{entry.composite}_backward"
        both = {forward, backward} if entry.backward or entry.derives else {forward}
        for table, mode in zip(each, MODES, strict=True):
            found = {node for call in table.calls for node in nodes[table.label + call]}
            assert found == (both if mode is torch.enable_grad else {forward}), (name, mode)
