"""The module that a registry file names for samples: of which entries it has some, and the example
calls that the first ones are."""

from pathlib import Path
from typing import Any

import pytest
import torch

from composites.errors import UnusableFunctionError
from composites.registry.formatting import formatted
from composites.registry.model import Composite
from composites.registry.samples import samples_of
from composites.registry.validation import parse_registry
from lowering.sample_calls import ExampleCall, example_calls

MODULE = """
import torch
from torch import relu

def gelu(dtype):
    yield (torch.ones(5, dtype=dtype).requires_grad_(),), {"approximate": "tanh"}
    yield (torch.ones(6, dtype=dtype),), {}

def others(dtype):
    yield (torch.ones(7, dtype=dtype),), {}

def softplus(dtype):
    yield ({"x": torch.ones(2, 4, dtype=dtype)}, 2.0), {}

def elu(dtype):
    yield (torch.nn.Identity(), torch.ones(9, dtype=dtype)), {}

def unwrapped(composite, operands, beta):
    return composite(operands["x"], beta=beta)

def called_by_dictionary(operands, beta):
    return torch.nn.functional.softplus(operands["x"], beta)

def smooth(x: torch.Tensor, *, beta: float) -> torch.Tensor:
    return torch.nn.functional.softplus(x, beta)
"""

HEAD = "schema: 2\nnamespace: acme\nsamples: module_of_samples\n"


@pytest.fixture(autouse=True)
def module(module_folder: Path) -> None:
    (module_folder / "module_of_samples.py").write_text(MODULE)


def entries(text: str, head: str = HEAD) -> list[Composite]:
    return list(parse_registry(f"{head}composites:\n{text}", "acme.yaml").composites)


def example(entry: Composite) -> ExampleCall:
    calls = example_calls(entry)
    assert isinstance(calls, tuple)
    return calls[0]


def test_functions_are_found_by_the_names_of_entries() -> None:
    gelu, named, silu, relu = entries(
        "  gelu@2: aten::gelu\n"
        "  named: {op: aten::gelu, samples: module_of_samples:others}\n"
        "  silu: aten::silu\n"
        "  relu: aten::relu\n"  # PyTorch's function, which the module imports
    )
    assert samples_of(gelu) == "module_of_samples:gelu"
    assert samples_of(named) == "module_of_samples:others"
    assert [samples_of(silu), samples_of(relu)] == [None, None]
    (plain,) = entries("  gelu: aten::gelu\n", "schema: 2\nnamespace: acme\n")
    assert samples_of(plain) is None


def test_a_module_that_is_missing_is_needed_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = entries("  gelu: aten::gelu\n", HEAD.replace("module", "no_module"))
    with pytest.raises(UnusableFunctionError, match="there is no module no_module_of_samples; did"):
        samples_of(entry)
    folder = tmp_path / "working"  # not in `sys.path`
    folder.mkdir()
    (folder / "no_module_of_samples.py").touch()
    monkeypatch.chdir(folder)
    with pytest.raises(UnusableFunctionError, match=r"set PYTHONPATH=\. to import it"):
        samples_of(entry)


def test_kernels_have_the_samples_of_their_entry() -> None:
    text = f"""{HEAD}composites: {{gelu: aten::gelu}}
kernels:
  acme.gelu:
    fast_one: {{goals: fast, decomposition: 'a:f'}}
    other: {{goals: fast, decomposition: 'a:f', samples: 'module_of_samples:others'}}
    always: {{goals: stock, decomposition: 'a:f'}}
  other.gelu:
    theirs: {{goals: fast, decomposition: 'a:f'}}
"""
    registry = parse_registry(text, "acme.yaml")
    kernels = (*registry.composites[0].kernels, *registry.kernels)
    assert {kernel.name: samples_of(kernel) for kernel in kernels} == {
        "fast_one": "module_of_samples:gelu",
        "other": "module_of_samples:others",
        "always": None,
        "theirs": None,
    }


def test_a_formatted_file_names_no_defaults() -> None:
    kept = (
        "  silu:\n    op: aten::silu\n    samples: module_of_samples:silu   # there is none\n"
        "  relu:\n    op: aten::relu\n    samples: module_of_samples:others\n"
    )
    long = f"{HEAD}composites:\n  gelu:\n    op: aten::gelu\n    samples: module_of_samples:gelu\n"
    assert formatted(long + kept, "acme.yaml") == (
        f"{HEAD}composites:\n  gelu:\n    op: aten::gelu\n{kept}"
    )


def test_the_first_sample_is_the_example() -> None:
    state = torch.get_rng_state()
    gelu, own, smooth = entries(
        "  gelu: {op: aten::gelu, attributes: [approximate]}\n"
        "  own: {op: aten::gelu, samples: module_of_samples:gelu}\n"
        "  softplus:\n"
        "    function: module_of_samples:called_by_dictionary\n"
        "    attributes: [beta]\n"
        "    adapt: module_of_samples:unwrapped\n"
        "    decomposition: module_of_samples:smooth\n"
    )
    assert shown(example(gelu)) == {"self": [5], "approximate": "tanh"}
    assert shown(example(own)) == {"self": [2, 3], "approximate": "none"}  # guessed
    assert shown(example(smooth)) == {"x": [2, 4], "beta": 2.0}
    tensors = [v for v in example(gelu).values.values() if isinstance(v, torch.Tensor)]
    assert not any(tensor.requires_grad for tensor in tensors)
    assert torch.equal(torch.get_rng_state(), state)


def test_other_examples_come_first_or_are_guessed() -> None:
    written, module, method = entries(
        "  gelu: {op: aten::gelu, example: {self: 4x4xf32}}\n"
        "  elu: aten::elu\n"
        "  gelu@2:\n"
        "    function: torch.nn:GELU.forward\n"
        "    adapt: module_of_samples:unwrapped\n"
        "    decomposition: module_of_samples:smooth\n"
    )
    assert shown(example(written))["self"] == [4, 4]
    assert shown(example(module))["self"] == [2, 3]
    assert shown(example(method)) == {"x": [2, 3], "beta": 1.0}


def shown(call: ExampleCall) -> dict[str, Any]:
    return {
        name: list(value.shape) if isinstance(value, torch.Tensor) else value
        for name, value in call.values.items()
    }
