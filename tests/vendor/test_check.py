"""`composites check`: what it refuses is what `enable` and the first call would refuse."""

import importlib
import linecache
import os
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from composites_testing.command_line import invoke
from composites_testing.golden import Parts, check_cases
from composites_testing.packages import install, returning
from typer.testing import Result

import composites
from composites.errors import LoweringError
from composites.registry.packages import builtin_registry_path

pytestmark = pytest.mark.usefixtures("acme")

ACME = Path(__file__).parent / "acme_package" / "acme" / "acme.yaml"
GOLDEN = Path(__file__).parent / "golden" / "check.txt"
check = partial(invoke, "check")
HEAD = "schema: 1\nnamespace: umbra\ncomposites:\n"


def assert_good(result: Result, count: int = 1) -> None:
    files = f"{count} file{'s' * (count > 1)}"
    assert result.stderr == ""
    assert (result.exit_code, result.stdout) == (0, f"{files} checked, no problems found\n")


def write(folder: Path, entries: str) -> Path:
    file = folder / "umbra.yaml"
    file.write_text(HEAD + entries)
    return file


def test_what_is_said(module_folder: Path) -> None:
    """Files with functions beside them give golden/check.txt's messages and turn nothing on."""
    composites.enable("silu")
    before = composites.active()

    def output(parts: Parts) -> str:
        for name in ("umbra.yaml", "umbra_ops.py"):
            (module_folder / name).write_text(parts.get(name, ""))
        importlib.invalidate_caches()
        sys.modules.pop("umbra_ops", None)
        linecache.clearcache()
        result = check(module_folder / "umbra.yaml", COLUMNS="5000")
        return f"exit code {result.exit_code}\n" + result.stderr.replace(f"{module_folder}/", "")

    check_cases(GOLDEN, output)
    assert composites.active() == before


REWRITING = """
from torch import Tensor

def rewritten(self: Tensor) -> Tensor:
    return self
"""


def test_a_rewrite_that_takes_other_arguments_is_an_error_of_the_call_too(
    module_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (module_folder / "rewriting_ops.py").write_text(REWRITING)
    rewrites = "{aten::gelu: 'rewriting_ops:rewritten'}"
    entry = f"  a: {{op: aten::silu, backward: derive, rewrites: {rewrites}}}\n"
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(write(module_folder, entry)))
    message = "rewriting_ops:rewritten does not take the arguments of aten::gelu: got an unexpected"
    x = torch.ones(2, device="xla")
    with composites.enabled("umbra.a"), pytest.raises(LoweringError, match=message):
        torch.nn.functional.gelu(x, approximate="tanh")


def test_the_file_of_an_installed_package(tmp_path: Path) -> None:
    link, copy = tmp_path / "link.yaml", tmp_path / "copy.yaml"
    link.symlink_to(ACME)
    copy.write_text(ACME.read_text() + "  silu: {op: aten::silu}\n")
    relative = os.path.relpath(ACME)
    files: list[list[str | Path]] = [[ACME], [relative], [link], [copy], [ACME, relative]]
    for named in files:
        assert_good(check(*named), len(named))


@pytest.mark.slow
def test_the_builtin_registry() -> None:
    """The registry replaces itself, and its entries for functions of transformers are tried too."""
    result = check(os.path.relpath(builtin_registry_path()))
    assert result.exit_code == 0
    assert all("there is no module torchao" in line for line in result.stderr.splitlines())


def test_each_problem_of_an_installed_file_is_printed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, "  a: {op: aten::gellu}\n")
    install(tmp_path, "umbra-ops", monkeypatch, umbra_ops=returning(file))
    text = "PyTorch has no operator aten::gellu; did you mean 'aten::gelu'?"
    assert check(file).stderr == f"{file}:4: a: {text}\n"
    relative = os.path.relpath(file)
    assert check(relative).stderr == f"{relative}:4: a: {text}\n"


@pytest.mark.parametrize("broken", ["  a: {op: aten::gellu}\n", "  a: [\n"])
def test_a_corrected_copy_stands_in_for_a_broken_file(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "umbra-ops", monkeypatch, other_name=returning(write(tmp_path, broken)))
    copy = tmp_path / "copy.yaml"
    copy.write_text(HEAD + "  a: {op: aten::gelu}\n")
    assert_good(check(copy, XLA_COMPOSITE_OP="umbra.*"))


def test_another_broken_package_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "broken-ops", monkeypatch, broken_ops="import nowhere_at_all\n")
    result = check(ACME)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: the registry of the package broken-ops cannot be")


def test_without_torch_xla_it_says_what_was_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch_xla", None)
    result = check(write(tmp_path, "  norm: {op: aten::native_layer_norm}\n"))
    assert (result.exit_code, result.stdout) == (0, "1 file checked, no problems found\n")
    assert result.stderr.startswith("warning: whether the entries can be turned on was not checked")
