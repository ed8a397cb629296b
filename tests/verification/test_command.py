"""`composites verify`: what it prints, its exit codes, and its files."""

import json
import os
import sys
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest
from composites_testing.command_line import invoke
from composites_testing.golden import Parts, check_cases
from composites_testing.processes import run

import composites
from lowering import activation

verify = partial(invoke, "verify")
HEAD = "schema: 1\nnamespace: umbra\ncomposites:\n"
FUNCTIONS = """
import torch

def relu(self, *, approximate="none"):
    return torch.relu(self)

def scaled(self, *, approximate="none"):
    values = [0.5, 0.25, 3.0, 5.0, 7.0, 11.0, 13.0]
    names = ["a", "b", "c", "d", "e", "f", "g"]
    for name in set(names):
        self = self + values[names.index(name)]
    return torch.nn.functional.gelu(self - sum(values), approximate=approximate)

def samples(dtype):
    x = torch.linspace(-2, 2, 12).reshape(3, 4).to(dtype)
    yield (x.requires_grad_(),), {"approximate": "tanh"}

def no_pairs(dtype):
    yield torch.ones(2, dtype=dtype)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "verify_ops.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "verify_ops", raising=False)
    composites.disable()
    activation.catalog.cache_clear()
    return tmp_path


def write(folder: Path, entries: str) -> Path:
    file = folder / "umbra.yaml"
    file.write_text(HEAD + entries)
    return file


GELU = "  gelu: {op: aten::gelu, attributes: {approximate: approximate}"


@pytest.mark.process
def test_builtin_entries() -> None:
    result = verify("hardswish", "huber_loss", "--json", "--samples", "4")
    assert result.exit_code == 0, result.output
    rows = {(row["entry"], row["dtype"]): row for row in json.loads(result.stdout)}
    names = ("hardswish", "hardswish_backward", "huber_loss", "huber_loss_backward")
    assert set(rows) == {(f"ptxla.{name}", dtype) for name in names for dtype in ("f32", "bf16")}
    for row in rows.values():
        assert (row["verdict"], row["source"], row["findings"]) == ("verified", "OpInfo", [])
        assert row["samples"] == 4
        assert row["claimed"] >= 4
        assert row["numbers"]["forward"] <= row["tolerance"]
    assert rows["ptxla.hardswish", "f32"]["same_bits"]


def test_a_table_and_a_file(folder: Path) -> None:
    file = write(folder, f"{GELU}, decomposition: 'verify_ops:relu'}}\n")
    result = verify("--registry", file, "--junit", folder / "report.xml", "--dtypes", "f32")
    assert result.exit_code == 1
    assert "umbra.gelu" in result.stdout
    assert "failed: umbra.gelu f32: forward: result 0: " in result.stdout
    assert result.stdout.endswith("0 verified, 1 failed, 0 not verified\n")
    suite = ElementTree.parse(folder / "report.xml").getroot()
    assert suite.attrib | {"failures": "1", "tests": "1", "skipped": "0"} == suite.attrib
    (case,) = suite
    assert (case.attrib["classname"], case.attrib["name"]) == ("umbra.gelu", "f32")
    assert "forward: result 0: " in str(case[0].text)


@pytest.mark.exhaustive
def test_text_that_depends_on_the_process(folder: Path) -> None:
    """A lock is checked in another process, whose order of sets is another one."""
    file = write(folder, f"{GELU}, decomposition: 'verify_ops:scaled', backward: derive}}\n")
    command = ["-m", "composites", "lock", str(file), "-o", str(folder / "registry.lock")]
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    written = run(sys.executable, *command, PYTHONPATH=path, PYTHONHASHSEED="1")
    assert written.code == 0, written.stdout + written.stderr
    for seed, code in (("1", 0), ("4711", 1)):
        checked = run(sys.executable, *command, "--check", PYTHONPATH=path, PYTHONHASHSEED=seed)
        assert checked.code == code, checked.stdout + checked.stderr
    assert "umbra.gelu" in checked.stdout + checked.stderr


@pytest.mark.slow
def test_samples_of_an_entry(folder: Path) -> None:
    file = write(folder, f"{GELU}, samples: 'verify_ops:samples'}}\n")
    result = verify("--registry", file, "--json", "gelu")
    assert result.exit_code == 0, result.output
    sources = {(row["source"], row["samples"]) for row in json.loads(result.stdout)}
    assert sources == {("samples", 1)}


@pytest.mark.slow
def test_what_has_no_samples_is_not_verified(folder: Path) -> None:
    file = write(folder, "  top: {function: 'verify_ops:samples', operands: [dtype]}\n")
    result = verify("--registry", file, "--dtypes", "f32")
    assert (result.exit_code, "1 not verified" in result.stdout) == (0, True), result.output
    assert verify("--registry", file, "--dtypes", "f32", "--strict").exit_code == 1


def test_mistakes(folder: Path) -> None:
    def message(parts: Parts) -> str:
        result = verify("--registry", write(folder, parts[""]), *parts["arguments"].split())
        assert "Traceback" not in result.output
        error = result.stderr.lstrip()  # rich 13 ends its progress with a line
        return f"exit code {result.exit_code}\n{error}".replace(f"{folder}/", "")

    check_cases(Path(__file__).parent / "golden" / "mistakes.txt", message)
