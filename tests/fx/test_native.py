"""`native` decompositions without torch_xla: the operators that a call becomes in the graph.

Each has a rule in JAX. An operator without one becomes those of PyTorch's decomposition, which may
be others in another version, so there is one golden file for each minor version of PyTorch. That of
the newest has all entries; an entry that came later is not in the others.
COMPOSITES_WRITE_GOLDEN=1 writes that of the installed one:

    COMPOSITES_WRITE_GOLDEN=1 pytest tests/fx/test_native.py
"""

import os
import warnings
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from composites import torch_internals
from composites.registry.model import Composite
from lowering import activation
from lowering.frontends.fx import capture
from lowering.frontends.fx.random import drawing_from
from lowering.frontends.fx.tensors import traced_placeholder
from lowering.sample_calls import NoCalls, example_calls

VERSION = ".".join(torch.__version__.split(".")[:2])
GOLDEN = Path(__file__).parent / "golden" / f"torch_{VERSION}.txt"


def test_what_native_entries_become() -> None:
    builtin = [registry for registry in activation.catalog().registries if registry.builtin]
    entries = [
        entry
        for registry in builtin
        for entry in registry.composites
        if entry.decomposition.kind == "native"
    ]
    actual = {entry.name: " ".join(operators(entry)) for entry in entries}
    if os.environ.get("COMPOSITES_WRITE_GOLDEN"):
        GOLDEN.write_text("".join(f"{n}: {actual[n]}\n" for n in actual), encoding="utf-8")
    assert GOLDEN.exists(), (
        f"no golden file for PyTorch {VERSION}; COMPOSITES_WRITE_GOLDEN=1 pytest {__file__}"
        " writes it: compare it with that of the version before"
    )
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    golden = dict(line.split(": ", 1) for line in lines)
    assert {name: actual.get(name) for name in golden} == golden
    if max(GOLDEN.parent.iterdir(), key=_numbers) == GOLDEN:
        assert list(actual) == list(golden)


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in path.stem.removeprefix("torch_").split(".")]


def operators(entry: Composite) -> Iterator[str]:
    """The operators of an example call, in graph order; `3*aten::add` are three in a row."""
    activation.backend()
    examples = example_calls(entry)
    if isinstance(examples, NoCalls):
        yield f"no example: {examples.reason}"
        return
    with (
        activation.all_off(),
        torch.no_grad(),
        warnings.catch_warnings(),
        capture.recording() as graph,
    ):
        warnings.simplefilter("ignore")  # PyTorch's, about examples that do not fit a backward
        with drawing_from(capture.placeholder(torch.empty((), dtype=torch.int64, device="meta"))):
            examples[0].run(lambda tensor: torch_internals.functional(traced_placeholder(tensor)))
        names = [_name(node.target) for node in graph.nodes if node.op == "call_function"]
    for name, same in groupby(names):
        count = len(list(same))
        yield name if count == 1 else f"{count}*{name}"


def _name(target: Callable[..., Any]) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return str(target.name())
    return target.__name__
