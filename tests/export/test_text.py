"""The text of exported programs: clean, without repetition, and always the same."""

import copy
import hashlib
import inspect
import json
import re
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from composites_testing.example_models import export_example, load_example
from composites_testing.modules import Calling
from composites_testing.processes import run_python
from torch import nn

import composites
from composites import Program
from lowering.stablehlo import Module, clean, decompose

MODELS = Path(__file__).parents[2] / "examples" / "models.py"
KINDS = ("inference", "gradients", "step")
FUNCTION = re.compile(r"^  func\.func private @([^\s(]+)\(", re.M)
CALLED = re.compile(r"decomposition = @([^\s,}]+)")


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_models(kind: str, model: Any) -> None:
    """Nothing is left that a consumer would have to clean, and functions say what they are."""
    program = export_example(model.name, kind)
    assert program.module.name == type(model.module).__name__
    text = program.mlir
    for leftover in ("call @", "func.call", "mhlo.", "custom_call", "loc(", "get_tuple_element"):
        assert leftover not in text
    assert clean(Module.parse(text)).text == text
    functions = FUNCTION.findall(text)
    assert sorted(functions) == sorted(set(CALLED.findall(text)))
    for name in program.composites:
        assert f"{name}.impl" in functions
    assert all(re.sub(r"\.impl(_\d+)?$", "", name) in program.composites for name in functions)


class Named(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(x)


def test_the_module_has_the_name_of_the_model() -> None:
    x = torch.ones(2)
    for module in (Named(), torch.export.export(Named(), (x,))):
        program = composites.export(module, (x,), passes=[decompose])
        assert program.module.name == "Named"
        assert program.mlir.startswith("module @Named {\n  func.func @main(")
        assert Module.from_bytes(program.module.portable()).name == "Named"
    assert composites.export(nn.Identity(), (x,)).module.name == "Identity"
    odd = type("Größe 2", (Named,), {})
    assert composites.export(odd(), (x,)).mlir.startswith("module @Gr__e_2 {\n")


def layers(count: int) -> torch.nn.Module:
    """Linear layers with gelu and softmax between them."""
    made = [(nn.Linear(8, 8), nn.GELU(), nn.Softmax(-1)) for _ in range(count)]
    return nn.Sequential(*chain(*made), Calling(torch.sum))


def test_more_layers_bring_no_more_functions() -> None:
    x = torch.ones(2, 8)
    few, many = (composites.export(layers(count), (x,), train=True) for count in (2, 6))
    assert FUNCTION.findall(few.mlir) == FUNCTION.findall(many.mlir)
    assert few.composites == dict.fromkeys(few.composites, 2)
    assert many.composites == dict.fromkeys(few.composites, 6)
    assert len(FUNCTION.findall(many.mlir)) == 4
    own = composites.export(layers(2), (x,), train=True, share_decompositions=False)
    functions = FUNCTION.findall(own.mlir)
    assert len(functions) == len(set(CALLED.findall(own.mlir))) == 8
    gelus = [name for name in functions if name.startswith("ptxla.gelu.")]
    assert sorted(gelus) == ["ptxla.gelu.impl", "ptxla.gelu.impl_0"]


def hashes(program: Program) -> list[str]:
    parts = (
        program.mlir.encode(),
        program.module.portable("1.9.0"),
        repr((program.inputs, program.outputs)).encode(),
    )
    return [hashlib.sha256(part).hexdigest() for part in parts]


SCRIPT = f"""
import functools, hashlib, json, sys
import torch
import composites
from composites import Program
from lowering.cli.export import load_factory

torch.manual_seed(0)
module, args, kwargs = load_factory({str(MODELS)!r} + ":bert")
module.eval()  # dropout would take a seed
programs = []
for train in (False, True):
    optimizer = functools.partial(torch.optim.AdamW, lr=1e-3) if train else None
    programs.append(composites.export(module, args, kwargs, optimizer=optimizer))
{inspect.getsource(hashes)}
facts = dict(hashes=[hashes(program) for program in programs], string=hash("a string"))
json.dump(facts, sys.stdout)
"""


@pytest.mark.process
def test_every_process_writes_the_same_bytes() -> None:
    programs = [export_example("bert", kind) for kind in ("inference", "step")]
    report = json.loads(run_python(SCRIPT, PYTHONHASHSEED="1").stdout)
    assert report["hashes"] == [hashes(program) for program in programs]
    assert report["string"] != hash("a string")  # of sets, another order
    assert len({text for texts in report["hashes"] for text in texts}) == 6


def test_exporting_again_gives_the_same_text() -> None:
    """A module on meta, which has no values, gives the same text too."""
    model = load_example("vit")
    module = copy.deepcopy(model.module).to("meta")
    again = composites.export(module, model.args, model.kwargs, train=True)
    assert again.mlir == export_example("vit", "gradients").mlir
