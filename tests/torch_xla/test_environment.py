"""Environment variables of users: XLA_COMPOSITE_OP, and torch_xla's own switches.

Each environment is a process of its own, whose facts many tests look at.
"""

import gc
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from composites_testing.processes import run_python
from composites_testing.written import written_composites

import composites
from composites.registry.packages import builtin_registry_path
from composites.registry.validation import load_registry
from lowering.dispatch import computations
from lowering.dispatch.backend import EntryLowering
from lowering.frontends import registration
from lowering.frontends.torch_xla import value_guard
from lowering.installation import install

REGISTRY = load_registry(builtin_registry_path())
EVERYTHING = {entry.qualified for entry in REGISTRY.composites}

ENTRY_POINT = [
    *("composites", "composites.settings"),
    *("lowering", "lowering.autoload", "lowering.import_hook"),
]
FACTS = """
import json
import sys

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch.nn.functional as F

imported = sorted(name for name in sys.modules if name.startswith(("composites", "lowering")))

def reference_case():
    x = torch.tensor([2.0], requires_grad=True, device="xla")
    torch.nn.GELU(approximate="none")(x ** 2).backward()
    return xm.get_stablehlo([x.grad])

def step():
    x = torch.linspace(-4, 4, 512).reshape(16, 32).to("xla").requires_grad_()
    hidden = F.silu(F.gelu(x))
    result = F.softmax(hidden, -1) + F.log_softmax(F.mish(hidden), -1)
    result.backward(torch.linspace(-1, 1, 512).reshape(16, 32).to("xla"))
    text = xm.get_stablehlo([result, x.grad])
    torch_xla._XLAC._xla_sync_multi([result, x.grad], [], True, True)
    return text, [t.detach().cpu().numpy().tobytes().hex() for t in (result, x.grad)]

text, bits = step()
json.dump(dict(text=text, bits=bits, gelu=reference_case(), imported=imported), sys.stdout)
"""
"""A script that knows nothing of this project, and prints what came of it."""
STEPS_COMPOSITES = {
    f"ptxla.{name}{way}": 1
    for name in ("gelu", "silu", "mish", "softmax", "log_softmax")
    for way in ("", "_backward")
}


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that FACTS printed in a process with some environment."""

    text: str
    """The text of a training step."""
    bits: list[str]
    """The bits of the results of that step."""
    gelu: str
    """StableHLO of the gradient of a gelu."""
    imported: list[str]
    """Modules of this project, after the import of torch_xla."""
    stderr: str


def facts(**environment: str) -> Facts:
    """Every warning is an error in this process, and nothing but the facts is printed."""
    done = run_python(FACTS, "-W", "error", **environment)
    return Facts(**json.loads(done.succeeded().stdout), stderr=done.stderr)


@pytest.fixture(scope="module")
def stock() -> Facts:
    return facts()


@pytest.fixture(scope="module")
def ours() -> Facts:
    return facts(XLA_COMPOSITE_OP="all")


@pytest.mark.process
def test_unset_only_the_entry_point_is_imported(stock: Facts) -> None:
    assert stock.imported == ENTRY_POINT


@pytest.mark.process
def test_unset_the_text_is_that_of_stock_torch_xla(stock: Facts) -> None:
    without_autoload = facts(TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert without_autoload.imported == []
    assert (stock.gelu, stock.text) == (without_autoload.gelu, without_autoload.text)
    assert stock.bits == without_autoload.bits
    assert "stablehlo.composite" not in stock.text + stock.gelu


@pytest.mark.process
def test_a_step_becomes_composites(stock: Facts, ours: Facts) -> None:
    assert written_composites(ours.text) == STEPS_COMPOSITES
    assert ours.bits == stock.bits != []


@pytest.mark.process
def test_nothing_is_printed(stock: Facts, ours: Facts) -> None:
    assert ours.stderr == stock.stderr


def test_the_backward_of_gelu_is_one_composite(ours: Facts) -> None:
    (call,) = [line for line in ours.gelu.splitlines() if "stablehlo.composite " in line]
    assert '"ptxla.gelu_backward"' in call
    assert 'composite_attributes = {approximate = "none"}' in call
    assert "version = 1 : i32" in call
    decomposition = ours.gelu.split("func.func private @ptxla.gelu_backward.impl")[1]
    assert "@mhlo.erf" in decomposition
    assert "stablehlo.exponential" in decomposition


# torch_xla's switches


@pytest.mark.exhaustive
@pytest.mark.parametrize("switch", ["XLA_STABLEHLO_COMPILE", "XLA_DISABLE_FUNCTIONALIZATION"])
def test_switches_of_torch_xla(stock: Facts, switch: str) -> None:
    switched = facts(**{switch: "1"}, XLA_COMPOSITE_OP="all")
    assert written_composites(switched.text) == STEPS_COMPOSITES
    assert switched.bits == stock.bits


@pytest.mark.exhaustive
def test_graphs_are_the_same_in_every_process(ours: Facts, tmp_path: Path) -> None:
    """torch_xla keeps compiled graphs on disk under their hash; a second process finds them."""
    first, second = (
        facts(XLA_COMPOSITE_OP="all", XLA_PERSISTENT_CACHE_PATH=str(tmp_path)) for _ in range(2)
    )
    for cached in (first, second):
        assert (cached.text, cached.bits, cached.gelu) == (ours.text, ours.bits, ours.gelu)
    assert len(list(tmp_path.iterdir())) == 1


# The allowlist


@pytest.mark.process
def test_a_list_with_spaces_that_leaves_out() -> None:
    script = "import torch_xla, torch\nimport composites\nprint(*composites.active())"
    done = run_python(script, XLA_COMPOSITE_OP=" -softmax ,, ptxla.*, -ptxla.gelu")
    without = (
        "gelu", "gelu_backward", "new_gelu", "fast_gelu", "bloom_gelu", "bloom_gelu_backward",
        "softmax", "softmax_backward",
    )  # fmt: skip
    expected = EVERYTHING - {f"ptxla.{name}" for name in without}
    assert set(done.stdout.split()) == expected, done.stderr


UNKNOWN = (
    "XLA_COMPOSITE_OP=gelu,sofmax: there is no composite"
    " 'sofmax'; did you mean 'softmax'? `composites list` prints them all"
)


@pytest.mark.process
def test_a_wrong_name_cannot_be_caught_and_forgotten() -> None:
    script = (
        "try:\n    import torch, torch_xla\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
        "import torch_xla\nprint('not reached')"
    )
    done = run_python(script, XLA_COMPOSITE_OP="gelu,sofmax")
    assert done.code == 1
    assert done.stdout.startswith(f"AllowlistError {UNKNOWN}"), done.stderr
    assert done.stdout.count("\n") == 1


@pytest.mark.process
def test_without_torch_xla_nothing_happens() -> None:
    """Even a wrong name does not matter."""
    done = run_python("import sys, torch\nprint(*sys.modules)", XLA_COMPOSITE_OP="gleu")
    modules = [name for name in done.stdout.split() if name.startswith(("composites", "lowering"))]
    by_name = ["chosen", "fx", "torch_xla"]
    frontends = ["lowering.frontends", *(f"lowering.frontends.{name}" for name in by_name)]
    expected = sorted([*ENTRY_POINT, "composites.errors", *frontends])
    assert sorted(modules) == expected
    assert done.code == 0


@pytest.mark.process
def test_a_wrong_registry_stops_the_program_at_the_import(tmp_path: Path) -> None:
    wrong = tmp_path / "acme.yaml"
    wrong.write_text("schema: 1\nnamespace: acme\ncomposites: {a: {op: aten::gellu}}\n")
    done = run_python(
        "import torch_xla", XLA_COMPOSITE_OP="gelu", XLA_COMPOSITE_REGISTRY=str(wrong)
    )
    assert done.code == 1
    assert done.stderr.splitlines()[-1] == (
        f"composites.errors.RegistryError: {wrong}:3: a: PyTorch has no operator aten::gellu;"
        " did you mean 'aten::gelu'?"
    )


# Off is off


def kernels() -> dict[str, str]:
    """The dispatcher's table of every operator of the registry."""
    operators = [entry.op for entry in REGISTRY.composites if entry.op is not None]
    return {op: torch._C._dispatch_dump_table(op) for op in operators}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads, such as those of a test before, call no operators now. What had to stay in the
    dispatcher because of them is removed."""
    monkeypatch.setattr(registration, "_alone", lambda: True)
    composites.disable()


def test_turning_off_restores_every_kernel(alone: None) -> None:
    stock = kernels()
    with composites.enabled("all"):
        turned_on = kernels()
    assert kernels() == stock
    assert not [op for op in stock if stock[op] == turned_on[op]]


def test_one_operator_on_leaves_the_others_alone(alone: None) -> None:
    stock = kernels()
    with composites.enabled("mish"):
        turned_on = kernels()
    changed = {op for op in stock if stock[op] != turned_on[op]}
    assert changed == {"aten::mish", "aten::mish_backward"}


def test_tensors_traced_before_and_after_meet_in_one_graph() -> None:
    x = torch.linspace(-4, 4, 8).to("xla")
    stock = torch.nn.functional.gelu(x)
    with composites.enabled("gelu"):
        ours = torch.nn.functional.gelu(x)
    difference = stock - ours
    assert written_composites(xm.get_stablehlo([difference])) == {"ptxla.gelu": 1}
    assert difference.cpu().abs().max() == 0


def test_shapes_that_never_repeat_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    lowerings: list[EntryLowering] = []

    def make_lowering(*arguments: Any) -> EntryLowering:
        lowerings.append(EntryLowering(*arguments))
        return lowerings[-1]

    monkeypatch.setattr(computations, "MAX_COMPUTATIONS", 4)
    monkeypatch.setattr(install, "EntryLowering", make_lowering)
    with composites.enabled("elu"):
        for size in range(1, 20):
            result = torch.nn.functional.elu(torch.zeros(size, device="xla"))
            assert "ptxla::elu" in torch_xla._XLAC._get_xla_tensors_text([result])
    forward, backward = lowerings
    assert 1 <= len(forward.computations) <= 4
    assert not backward.computations


def test_no_collection_while_a_call_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch_xla calls the guard's kernels under a lock that each tensor takes as it ends."""
    enabled: list[bool] = []
    as_tensor = value_guard._as_tensor

    def recorded(value: Any) -> Any:
        enabled.append(gc.isenabled())
        return as_tensor(value)

    monkeypatch.setattr(value_guard, "_as_tensor", recorded)
    with composites.enabled("dropout"):
        torch.nn.functional.dropout(torch.ones(3, 5, device="xla"))
    assert enabled
    assert not any(enabled)
    assert gc.isenabled()
