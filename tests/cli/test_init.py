"""`composites init`: what it writes, what it refuses, and that the package works."""

import json
import os
import re
import sysconfig
import tomllib
import venv
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from composites_testing.command_line import invoke
from composites_testing.golden import check_cases
from composites_testing.processes import Finished, run, run_python

import composites
from composites.registry.document import json_schema

ROOT = Path(__file__).parents[2]
init = partial(invoke, "init")


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    remains = [path.name for path in tmp_path.rglob(".composites-*")]
    assert not remains, "temporary files are left"


def refused(*arguments: str) -> str:
    """The one error with which the command ends."""
    result = init(*arguments)
    named = ("such as", "is taken")
    assert result.exit_code == (2 if any(text in result.stderr for text in named) else 1)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def written(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))


# What it writes


def test_the_files_of_a_package(tmp_path: Path) -> None:
    result = init("acme")
    assert result.stdout.splitlines() == [
        "acme: 13 files. Now install the package and run its tests:",
        "  cd acme",
        "  pip install -e '.[test]'",
        "  pytest",
    ]
    files = [path for path in (tmp_path / "acme").rglob("*") if path.is_file()]
    assert len(files) == 13
    assert {"README.md", "pyproject.toml", ".gitignore"} <= {path.name for path in files}
    for path in files:
        text = path.read_text()
        assert not re.search("{{|{%", text), path
        assert text.endswith("\n")
        if path.suffix == ".py":
            compile(text, str(path), "exec")


def test_what_the_files_say() -> None:
    """Python finds the registry, editors its schema, and GitHub the workflow."""
    init("acme")
    project = tomllib.loads(Path("acme/pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {"composites.registries": {"acme": "acme:registry"}}
    assert project["dependencies"] == [f"torch-xla-composites>={composites.__version__}"]
    registry = Path("acme/src/acme/registry.yaml")
    first = registry.read_text().splitlines()[0]
    match = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert match
    assert json.loads((registry.parent / match[1]).read_text()) == json_schema()
    workflow = yaml.safe_load(Path("acme/.github/workflows/test.yml").read_text())
    commands = [step.get("run") for step in workflow["jobs"]["test"]["steps"]]
    assert commands[-3:] == [
        "pip install '.[test]'",
        "pytest",
        "composites lock src/acme/registry.yaml -o registry.lock --check",
    ]


def test_a_directory(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder, quoted in (
        ("new", "new"),
        ("in/a/new", "in/a/new"),
        ("empty", "empty"),
        ("with blank", "'with blank'"),
    ):
        result = init("acme", "--directory", folder)
        assert result.exit_code == 0
        assert f"  cd {quoted}\n" in result.stdout
        assert (tmp_path / folder / "src" / "acme" / "registry.yaml").exists()


@pytest.mark.process
def test_neither_torch_nor_jax_is_needed() -> None:
    done = run_python(
        "import sys\n"
        "sys.modules['torch'] = sys.modules['jax'] = sys.modules['jaxlib'] = None\n"
        "from lowering.cli.app import app\n"
        "app(['init', 'acme'])\n"
    )
    assert done.code == 0, done.stderr
    assert Path("acme/pyproject.toml").exists()


# What it refuses


def test_names_that_cannot_be_used(tmp_path: Path) -> None:
    check_cases(
        Path(__file__).parent / "golden" / "names.txt", lambda parts: refused(parts[""].strip())
    )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_the_name_takes_nothing(module_folder: Path) -> None:
    (module_folder / "acme").mkdir()  # an empty clone, which Python could import
    assert init("acme").exit_code == 0


def test_a_folder_with_files_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "notes.txt").write_text("mine")
    assert refused("acme") == (
        "error: acme is not empty (it has notes.txt); name a new folder with --directory\n"
    )
    assert written(tmp_path) == ["acme/notes.txt"]


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "acme").write_text("mine")
    assert "acme: File exists" in refused("acme")
    assert (tmp_path / "acme").read_text() == "mine"


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def fails(path: Path, data: Any) -> int:
        if path.name == "registry.yaml":
            raise OSError(28, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", fails)
    assert "No space left on device" in refused("acme")
    assert list(tmp_path.iterdir()) == []


# That the package works


class Environment:
    """A new environment. It also has the packages of this one."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.commands = folder / "bin"
        site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
        paths = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
        lines = [f"import site; site.addsitedir({path!r})\n" for path in sorted(paths)]
        (site / "of_the_tests.pth").write_text("".join(lines))
        for command in ("composites", "pip", "pytest"):
            self._add(command)

    def _add(self, command: str) -> None:
        """A command that needs no network to install a package."""
        offline = "--no-deps --no-build-isolation --no-index"
        file = self.commands / command
        file.write_text(
            "#!/bin/sh\n"
            f'[ "{command} $1" = "pip install" ] && shift && set -- install {offline} "$@"\n'
            f'exec "{self.commands}/python" -m {command} "$@"\n'
        )
        file.chmod(0o755)

    def run(self, *command: str, cwd: Path | None = None) -> Finished:
        path = f"{self.commands}{os.pathsep}{os.environ['PATH']}"
        return run(*command, cwd=cwd, PATH=path, PIP_DISABLE_PIP_VERSION_CHECK="1")


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


@pytest.mark.exhaustive  # 2 minutes
def test_the_whole_path(environment: Environment, tmp_path: Path) -> None:
    script = ROOT / "examples" / "vendor_path.sh"
    done = environment.run("bash", str(script), "package")
    assert done.code == 0, f"{done.stdout}\n{done.stderr}"
    for line in (
        "8 passed",
        "1 file checked, no problems found",
        "4 verified, 0 failed, 0 not verified",
        "│ acme.softcap v1 │ limit=30",
        "registry.lock: 4 contracts, 4 with a decomposition's hash",
        "no changes",
    ):
        assert line in done.stdout, done.stdout
    assert (tmp_path / "package" / "registry.lock").exists()
    assert environment.run("pip", "show", "acme").code == 1


@pytest.mark.exhaustive  # 1 minute
def test_the_tests_of_the_package_find_mistakes(environment: Environment) -> None:
    assert init("acme").exit_code == 0
    source = Path("acme/src/acme")
    for name, right, wrong in (
        ("decompositions.py", "0.5 * self * (1 + torch.erf(self / math.sqrt(2)))", "self.relu()"),
        ("kernels.py", "= limit * jnp.tanh", "= 7 * limit * jnp.tanh"),
        ("operators.py", "return softcap_backward(", "return 2 * softcap_backward("),
    ):
        text = (source / name).read_text()
        assert right in text
        (source / name).write_text(text.replace(right, wrong))
    done = environment.run("pip", "install", ".", cwd=Path("acme"))
    assert done.code == 0, done.stderr
    done = environment.run("pytest", "-q", cwd=Path("acme"))
    assert done.code == 1
    failed = re.findall(r"^FAILED tests/test_acme.py::(\w+)", done.stdout, re.MULTILINE)
    assert failed == [
        "test_entries_compute_what_pytorch_computes",
        "test_operator_is_well_registered",
        "test_kernels_compute_what_decompositions_compute",
    ], done.stdout
    assert "acme.gelu f32: forward: result 0" in done.stdout
