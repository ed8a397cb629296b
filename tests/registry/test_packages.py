"""Registries of installed packages: a broken one stops its own entries and nothing else."""

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from composites_testing.command_line import invoke
from composites_testing.packages import install, returning

from composites import settings
from composites.allowlist import resolve
from composites.errors import AllowlistError, CompositesWarning, RegistryError
from composites.registry.catalog import load_catalog
from composites.registry.listed_kernels import all_listed
from lowering.autoload import autoload

GOOD = "schema: 1\nnamespace: umbra\ncomposites:\n  glow: {op: aten::gelu}\n"
KERNEL = GOOD.replace("gelu}", "gelu, kernels: {cpu: [{target: t}]}}")
BROKEN = {
    "import": ("import nowhere_at_all\n", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
    "exit": ("import sys\nsys.exit('no license')\n", "SystemExit: no license"),
    "function": ("registry = 3\n", "must be a path or a function that returns one, not 3"),
    "file": (returning(Path("/no/umbra.yaml")), "cannot be read: No such file or directory"),
    "yaml": ("namespace: umbra\ncomposites: [\n", "umbra.yaml:"),
    "entry": (GOOD + "  b: {op: aten::gellu}\n", "b: PyTorch has no operator aten::gellu"),
    "builtin": (GOOD.replace("umbra", "ptxla").replace("glow", "gelu"), "is already defined in"),
}


Make = Callable[..., Path]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Installs a package of a registry's text, or of a module's source; gives the file's path."""
    number = itertools.count()

    def make(text: str, name: str = "umbra-ops") -> Path:
        folder = tmp_path / f"site{next(number)}"
        folder.mkdir()
        file = folder / "umbra.yaml"
        is_registry = "namespace:" in text
        if is_registry:
            file.write_text(text)
        module = name.replace("-", "_")
        install(folder, name, monkeypatch, **{module: returning(file) if is_registry else text})
        return file

    return make


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test sees the warnings of another one."""
    settings.warn_of_unknown_variables.cache_clear()
    yield
    settings.warn_of_unknown_variables.cache_clear()


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_package_stops_its_own_entries(fault: str, package: Make) -> None:
    text, reason = BROKEN[fault]
    package(text)
    catalog = load_catalog()
    assert resolve(["gelu"], catalog)
    (warning,) = catalog.warnings()
    assert "umbra-ops" in warning
    assert reason in warning
    for name in ("glow", "umbra.*"):
        with pytest.raises(AllowlistError) as raised:
            resolve([name], catalog)
        assert str(raised.value).endswith(warning)


@pytest.mark.parametrize("where", ["[1]", "0", "1.5", "true"])
def test_a_wrong_kernel_condition_stops_no_other(where: str, package: Make) -> None:
    package(KERNEL.replace("t}", f"t, when: {{where: {where}}}}}"))
    assert "umbra." not in str(all_listed())
    result = invoke("list", "--kernels")
    assert "is not an expression" in result.stderr
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)


def test_a_broken_package_stops_no_other(package: Make) -> None:
    package("import nowhere_at_all\n", "aaa")
    package(GOOD, "bbb")
    catalog = load_catalog()
    assert [entry.qualified for entry in resolve(["umbra.*"], catalog)] == ["umbra.glow"]
    assert [left.package for left in catalog.left_out] == ["aaa"]


def test_list_shows_the_rest_and_what_is_broken(package: Make) -> None:
    package("import nowhere_at_all\n")
    result = invoke("list")
    assert result.exit_code == 1
    assert "ptxla.gelu v1" in result.stdout
    assert result.stderr.startswith(
        "warning: the registry of the package umbra-ops cannot be used: entry point umbra_ops ="
        " umbra_ops:registry: ModuleNotFoundError: No module named 'nowhere_at_all'"
    )
    result = invoke("list", "--json")
    assert [left["package"] for left in json.loads(result.stdout)["left_out"]] == ["umbra-ops"]


def test_a_file_that_the_user_names_must_be_right(
    package: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = package(GOOD + "  b: {op: aten::gellu}\n")
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(file))
    with pytest.raises(RegistryError, match="no operator aten::gellu") as raised:
        load_catalog()
    assert len(raised.value.problems) == 1


def test_a_file_that_is_named_and_announced_is_one_registry(
    package: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = package(GOOD)
    relative = os.path.relpath(file)
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", os.pathsep.join([relative, str(file)]))
    assert [r.source for r in load_catalog().registries if not r.builtin] == [relative]


def test_another_file_with_an_announced_entry_is_an_error(
    package: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(GOOD)
    (tmp_path / "mine.yaml").write_text(GOOD)
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(tmp_path / "mine.yaml"))
    with pytest.raises(RegistryError, match=r"umbra\.glow is already defined in .*mine\.yaml"):
        load_catalog()


OF_ITS_OWN = "schema: 1\nnamespace: umbra\ncomposites:\n  shade: {{op: umbra::for_{command}}}\n"
REGISTERS = """
import torch

library = torch.library.Library("umbra", "FRAGMENT")


def registry():
    if not hasattr(torch.ops.umbra, "for_{command}"):
        library.define("for_{command}(Tensor x) -> Tensor")
    return {path!r}
"""


@pytest.mark.parametrize("command", ["check", "codegen", "docs"])
def test_a_file_that_the_user_names_may_have_operators_of_a_package(
    command: str, package: Make, tmp_path: Path
) -> None:
    """The package registers them when it is asked for its registry. Each case has its own, because
    operators stay registered."""
    file = tmp_path / "umbra.yaml"
    file.write_text(OF_ITS_OWN.format(command=command))
    package(REGISTERS.format(command=command, path=str(file)))
    output = [] if command == "check" else ["-o", str(tmp_path / "written")]
    result = invoke(command, file, *output)
    assert result.exit_code == 0, result.output


def test_two_packages_with_one_namespace_are_warned_of(package: Make) -> None:
    first, second = package(GOOD, "aaa"), package(GOOD.replace("glow", "dim"), "bbb")
    catalog = load_catalog()
    assert list(catalog.warnings()) == [
        f"the packages aaa ({first}) and bbb ({second}) use one namespace, 'umbra'; umbra.* means"
        " the entries of both"
    ]
    assert len(resolve(["umbra.*"], catalog)) == 2


def test_two_packages_with_one_entry_leave_the_first(package: Make) -> None:
    first, second = package(GOOD, "aaa"), package(GOOD, "bbb")
    catalog = load_catalog()
    assert [entry.location.file for entry in resolve(["umbra.*"], catalog)] == [str(first)]
    assert [str(left) for left in catalog.left_out] == [
        f"the registry of the package bbb cannot be used: {second}:4: glow: umbra.glow is already"
        f" defined in {first}; use your own namespace, or another `version`"
    ]


HINTS = {
    "XLA_COMPOSITES_OP": "XLA_COMPOSITE_OP",
    "XLA_COMPOSITE_OPS": "XLA_COMPOSITE_OP",
    "xla_composite_op": "XLA_COMPOSITE_OP",
    "XLA_COMPOSITE_REGISTRIES": "XLA_COMPOSITE_REGISTRY",
}


@pytest.mark.parametrize("name", HINTS)
def test_a_misspelled_variable_is_warned_of_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch calls `autoload`, which has nothing else to do then."""
    monkeypatch.setenv(name, "gelu")
    with pytest.warns(CompositesWarning) as warned:
        [read() for read in (autoload, load_catalog, load_catalog)]
    assert [str(warning.message) for warning in warned] == [
        f"the environment variable {name} is set, but nothing reads it; did you mean"
        f" '{HINTS[name]}'?"
    ]


def test_variables_of_others_are_theirs() -> None:
    variables = {"XLA_COMPILATION_CACHE_SIZE": "1", "XLA_FLAGS": "", "COMPOSITES_XLA": "full"}
    assert settings.unknown_variables(variables | {"XLA_COMPOSITE_OP": "gelu"}) == ()


def test_the_command_line_warns_of_a_misspelled_variable() -> None:
    result = invoke("env", XLA_COMPOSITES_OP="gelu")
    assert result.exit_code == 0
    assert result.stderr == (
        "warning: the environment variable XLA_COMPOSITES_OP is set, but nothing reads it; did you"
        " mean 'XLA_COMPOSITE_OP'?\n"
    )
