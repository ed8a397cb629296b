"""What a user sets outside of the script: XLA_COMPOSITE_OP, and torch_xla's own switches.

Each script runs in a process of its own; tests/activation has the plain cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import yaml

import composites
from lowering.dispatch import backend as hooks
from lowering.dispatch import computations
from lowering.dispatch.backend import EntryLowering
from lowering.installation import install

Python = Callable[..., Any]

REGISTRY = yaml.safe_load((Path(__file__).parents[2] / "registry.yaml").read_text())
EVERYTHING = {f"ptxla.{name}" for name in REGISTRY["composites"]}

STEP = """
import hashlib
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch.nn.functional as F

x = torch.linspace(-4, 4, 512).reshape(16, 32).to("xla").requires_grad_()
hidden = F.silu(F.gelu(x))
result = F.softmax(hidden, -1) + F.log_softmax(F.mish(hidden), -1)
result.backward(torch.linspace(-1, 1, 512).reshape(16, 32).to("xla"))
print(xm.get_stablehlo([result, x.grad]))
torch_xla._XLAC._xla_sync_multi([result, x.grad], [], True, True)
for tensor in (result, x.grad):
    print("bits:", hashlib.sha256(tensor.detach().cpu().numpy().tobytes()).hexdigest())
"""
STEPS_COMPOSITES = {
    f"ptxla.{name}{way}": 1
    for name in ("gelu", "silu", "mish", "softmax", "log_softmax")
    for way in ("", "_backward")
}


def bits(stdout: str) -> list[str]:
    return [line for line in stdout.splitlines() if line.startswith("bits:")]


@pytest.fixture(scope="module")
def stock(python: Python) -> Any:
    return python(STEP)


@pytest.fixture(scope="module")
def ours(python: Python) -> Any:
    return python(STEP, XLA_COMPOSITE_OP="all")


def test_a_step_becomes_composites(
    stock: Any, ours: Any, written_composites: Callable[[str], Counter[str]]
) -> None:
    assert not written_composites(stock.stdout)
    assert written_composites(ours.stdout) == STEPS_COMPOSITES
    assert bits(ours.stdout) == bits(stock.stdout) != []


def test_nothing_is_printed(stock: Any, ours: Any) -> None:
    assert ours.stderr == stock.stderr
    assert ours.stdout.startswith("module @IrToHlo.")


def test_every_warning_an_error(python: Python) -> None:
    done = python(STEP, "-W", "error", XLA_COMPOSITE_OP="all")
    assert done.code == 0, done.stderr


# torch_xla's switches


@pytest.mark.parametrize("switch", ["XLA_STABLEHLO_COMPILE", "XLA_DISABLE_FUNCTIONALIZATION"])
def test_switches_of_torch_xla(
    python: Python, written_composites: Callable[[str], Counter[str]], stock: Any, switch: str
) -> None:
    done = python(STEP, **{switch: "1"}, XLA_COMPOSITE_OP="all")
    assert done.code == 0, done.stderr
    assert written_composites(done.stdout) == STEPS_COMPOSITES
    assert bits(done.stdout) == bits(stock.stdout)


def test_graphs_are_the_same_in_every_process(python: Python, tmp_path: Path) -> None:
    """torch_xla keeps compiled graphs on disk under their hash; a second process finds them."""
    first, second = (
        python(STEP, XLA_COMPOSITE_OP="all", XLA_PERSISTENT_CACHE_PATH=str(tmp_path))
        for _ in range(2)
    )
    assert first.code == second.code == 0, second.stderr
    assert first.stdout == second.stdout
    assert len(list(tmp_path.iterdir())) == 1


def test_children_that_are_spawned_have_them_too(python: Python, tmp_path: Path) -> None:
    script = tmp_path / "spawns.py"
    script.write_text(
        "import multiprocessing\n"
        "def child():\n"
        "    import torch_xla\n"
        "    import composites\n"
        "    print(composites.active(), flush=True)\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('spawn').Process(target=child)\n"
        "    process.start()\n"
        "    process.join()\n"
    )
    run = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    assert python(run, XLA_COMPOSITE_OP="silu").stdout == "('ptxla.silu', 'ptxla.silu_backward')\n"


# The allowlist

ACTIVE = "import torch_xla, composites\nprint(*composites.active())"


@pytest.mark.parametrize(
    ("allowlist", "expected"),
    [
        (" mish ,,ptxla.silu ", {"mish", "mish_backward", "silu", "silu_backward"}),
        ("-softmax, ptxla.*, -ptxla.gelu", None),
    ],
)
def test_allowlists(python: Python, allowlist: str, expected: set[str] | None) -> None:
    done = python(ACTIVE, XLA_COMPOSITE_OP=allowlist)
    without = {"gelu", "gelu_backward", "new_gelu", "softmax", "softmax_backward"}
    names = set(REGISTRY["composites"]) - without if expected is None else expected
    assert set(done.stdout.split()) == {f"ptxla.{name}" for name in names}, done.stderr


def test_a_wrong_name_cannot_be_caught_and_forgotten(python: Python) -> None:
    script = (
        "try:\n    import torch_xla\nexcept Exception as error:\n    print(type(error).__name__)\n"
        "import torch_xla\nprint('not reached')"
    )
    done = python(script, XLA_COMPOSITE_OP="gleu")
    assert done.code == 1
    assert done.stdout == "AllowlistError\n"


def test_a_wrong_name_is_nobodys_business_without_torch_xla(python: Python) -> None:
    done = python("import torch\nprint(torch.ones(2).sum().item())", XLA_COMPOSITE_OP="gleu")
    assert (done.code, done.stdout) == (0, "2.0\n")


def test_unset_only_the_entry_point_is_imported(python: Python) -> None:
    done = python("import sys, torch_xla\nprint(*sys.modules)")
    found = [name for name in done.stdout.split() if name.startswith(("composites", "lowering"))]
    assert sorted(found) == ["composites", "composites.settings", "lowering", "lowering.autoload"]


# Off is off


def kernels() -> dict[str, str]:
    """The dispatcher's table of every operator of the registry."""
    operators = [e["op"] for e in REGISTRY["composites"].values() if "op" in e]
    return {op: torch._C._dispatch_dump_table(op) for op in operators}


def test_turning_off_restores_every_kernel() -> None:
    stock = kernels()
    with composites.enabled("all"):
        turned_on = kernels()
    assert kernels() == stock
    assert not [op for op in stock if stock[op] == turned_on[op]]


def test_one_operator_on_leaves_the_others_alone() -> None:
    stock = kernels()
    with composites.enabled("mish"):
        turned_on = kernels()
    changed = {op for op in stock if stock[op] != turned_on[op]}
    assert changed == {"aten::mish", "aten::mish_backward"}


def test_blocks_within_blocks(written_composites: Callable[[str], Counter[str]]) -> None:
    def text() -> str:
        x = torch.linspace(-4, 4, 8).to("xla").requires_grad_()
        torch.nn.functional.gelu(torch.nn.functional.silu(x)).sum().backward()
        return xm.get_stablehlo([x.grad])

    def found() -> set[str]:
        return set(written_composites(text()))

    stock = text()
    with composites.enabled("gelu"):
        assert found() == {"ptxla.gelu_backward"}
        with composites.enabled("silu"):
            assert found() == {"ptxla.gelu_backward", "ptxla.silu", "ptxla.silu_backward"}
            composites.disable("gelu")
            assert found() == {"ptxla.silu", "ptxla.silu_backward"}
        # What a block changed inside is undone with it.
        assert found() == {"ptxla.gelu_backward"}
        with composites.enabled("all"):
            assert set(composites.active()) == EVERYTHING
        assert found() == {"ptxla.gelu_backward"}
    assert text() == stock


def test_turning_on_again_changes_nothing() -> None:
    with composites.enabled("all"):
        before = torch._C._dispatch_dump_table("aten::gelu")
        composites.enable("gelu", "ptxla.*")
        assert torch._C._dispatch_dump_table("aten::gelu") == before
        assert set(composites.active()) == EVERYTHING
        composites.enable()
        assert set(composites.active()) == EVERYTHING


def test_tensors_traced_before_and_after_meet_in_one_graph(
    written_composites: Callable[[str], Counter[str]],
) -> None:
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
        lowerings.append(hooks.make_lowering(*arguments))
        return lowerings[-1]

    monkeypatch.setattr(computations, "MAX_COMPUTATIONS", 4)
    monkeypatch.setattr(install, "make_lowering", make_lowering)
    with composites.enabled("elu"):
        for size in range(1, 20):
            result = torch.nn.functional.elu(torch.zeros(size, device="xla"))
            assert "ptxla::elu" in torch_xla._XLAC._get_xla_tensors_text([result])
    forward, backward = lowerings
    assert 1 <= len(forward.computations) <= 4
    assert not backward.computations
