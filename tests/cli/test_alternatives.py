"""Alternatives in the commands list, show, run and export."""

import json
from pathlib import Path

import pytest
from composites_testing.command_line import invoke

from composites.decompositions import choose
from lowering import activation
from lowering.verification.subjects import all_subjects

FUNCTIONS = """
def two(self):
    return self * 2


def pair(one, two):
    return one
"""

REGISTRY = Path(__file__).with_name("alternatives.yaml").read_text(encoding="utf-8")

SCRIPT = """\
import torch, torch_xla
for shape in ((2, 2), (2, 2), (3, 3), (3,)):
    torch.relu(torch.ones(*shape, device="xla")).cpu()
"""


@pytest.fixture(autouse=True)
def files(module_folder: Path, monkeypatch: pytest.MonkeyPatch, nothing_on: None) -> None:
    (module_folder / "umbra_f.py").write_text(FUNCTIONS)
    (module_folder / "umbra.yaml").write_text(REGISTRY)
    (module_folder / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(module_folder)
    monkeypatch.setenv("PYTHONPATH", str(module_folder), prepend=":")
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", "umbra.yaml")
    monkeypatch.setenv("COLUMNS", "200")


def test_list() -> None:
    result = invoke("list", "--json")
    entries = {e["name"]: e for e in json.loads(result.stdout)["composites"]}
    assert entries["umbra.e"]["alternatives"] == {"a": ["fast", "small"], "b": []}
    assert entries["ptxla.cross_entropy_loss"]["alternatives"] == {
        "from_saved": ["stock"],
        "rows": ["fast", "small"],
    }
    assert "a (fast, small), b" in invoke("list").stdout


def test_show() -> None:
    shown = invoke("show", "umbra.e").stdout
    assert "alternative a for fast, small: forward; when rank 2" in shown
    assert "alternative b: forward" in shown
    shown = invoke("show", "scaled_dot_product_attention").stdout
    assert "alternative blockwise_long for fast (not for cuda, litert)" in shown
    assert "alternative causal_rows for fast (only for cuda)" in shown
    described = json.loads(invoke("show", "umbra.e", "--json").stdout)["composites"][0]
    assert described["alternatives"]["b"] == {"decomposition": "umbra_f:two"}


@pytest.mark.process
def test_run(capfd: pytest.CaptureFixture[str]) -> None:
    variables = {"XLA_COMPOSITE_OP": "umbra.e", "XLA_COMPOSITE_DECOMPOSITION": "fast"}
    result = invoke("run", "train.py", **variables)
    assert result.exit_code == 0, result.output
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines()]
    assert ["umbra.e", "a", "2", "1: takes rank 2, not 1"] in rows
    assert ["umbra.e", "stock", "1", ""] in rows
    assert "where alternatives are chosen" not in invoke("run", "train.py").stdout


def test_export(tmp_path: Path) -> None:
    Path("model.py").write_text(
        "import torch\n\n\ndef relu():\n    return torch.nn.ReLU(), (torch.ones(2, 2),)\n"
    )
    texts = []
    for choice in ((), ("--decompositions", "fast")):
        result = invoke("export", "model.py:relu", "-o", "out", "--ops", "umbra.e", *choice)
        assert result.exit_code == 0, result.output
        texts.append("".join(path.read_text() for path in Path("out").glob("*.mlir")))
    assert ["stablehlo.maximum" in text for text in texts] == [True, False]
    result = invoke("export", "model.py:relu", "-o", "out", "--decompositions", "fats")
    assert result.exit_code == 1
    assert "there is no decomposition 'fats'" in result.stderr


@pytest.mark.slow
def test_verify_takes_one_alternative() -> None:
    catalog = activation.catalog()
    targets = all_subjects((), choose("umbra.e=b", catalog), (), None, catalog)
    assert [target.label for target in targets] == ["umbra.e=b"]
    mistake = invoke("verify", "umbra.e=c")
    assert mistake.exit_code == 1
    assert "umbra.e has no decomposition 'c' (known: stock, fast, small, a, b)" in mistake.output
    stock = invoke("verify", "umbra.e=stock")
    assert "umbra.e=stock: name the entry alone to verify its own" in stock.output
    every = invoke("verify", "all=stock")
    assert "all=stock: name the entry alone to verify its own" in every.output
    same = invoke("verify", "cross_entropy_loss=from_saved")
    assert same.exit_code == 1
    assert "has no decomposition 'from_saved' (known: stock, fast, small, rows)" in same.output


def test_verify_takes_each_alternative_once() -> None:
    catalog = activation.catalog()
    words = (*choose("umbra.e=b", catalog), *choose("umbra.e=fast", catalog))
    targets = all_subjects((), words, (), None, catalog)
    assert [target.label for target in targets] == ["umbra.e=a", "umbra.e=b"]
    targets = all_subjects((targets[0].entry,), words, (), None, catalog)
    assert [target.label for target in targets] == ["umbra.e", "umbra.e=a", "umbra.e=b"]


def test_verify_of_a_file_takes_no_alternative_of_others(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("schema: 1\nnamespace: mine\ncomposites:\n  e: {op: aten::relu}\n")
    result = invoke("verify", "--registry", str(file), "topk=fast")
    assert result.exit_code == 1
    assert "ptxla.topk is not an entry of" in result.output
