"""`composites doctor`: each fault is found, named, and survived.

Most tests put modules named torch and torch_xla before the real ones, which do quickly what broken
ones do. The others look at what is installed.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from composites_testing.packages import install
from composites_testing.processes import run_python
from packaging.requirements import Requirement
from typer.testing import CliRunner

from lowering.cli.app import app
from lowering.cli.doctor import plugin, processes, versions
from lowering.cli.doctor.copies import copy_findings
from lowering.cli.doctor.script import script_findings

TORCH = """
from importlib.metadata import entry_points
import os
if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1":
    for point in entry_points(group="torch.backends"):
        try:
            point.load()()
        except Exception as error:
            raise RuntimeError(
                f"Failed to load the backend extension: {point.name}. You can disable extension"
                " auto-loading with TORCH_DEVICE_BACKEND_AUTOLOAD=0."
            ) from error
"""
"""The part of `import torch` that runs plug-ins, as torch 2.9 has it."""
MISSING = "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)"
GOOD = "schema: 1\nnamespace: umbra\ncomposites:\n  gelu: {op: aten::gelu}\n"


@dataclass(frozen=True)
class Examined:
    """What the command printed as JSON."""

    code: int
    found: dict[str, Any]

    def of(self, subject: str) -> list[dict[str, str]]:
        return [f for f in self.found["findings"] if f["subject"] == subject]

    def one(self, subject: str) -> dict[str, str]:
        (finding,) = self.of(subject)
        return finding

    @property
    def problems(self) -> list[str]:
        return [f["subject"] for f in self.found["findings"] if f["level"] == "problem"]


def examine(*arguments: str, **environment: str | None) -> Examined:
    result = CliRunner().invoke(app, ["doctor", "--json", *arguments], env=environment)
    assert result.stderr == ""
    examined = Examined(result.exit_code, json.loads(result.stdout))
    assert examined.found["problems"] == len(examined.problems)
    assert examined.code == (1 if examined.problems else 0), examined.found
    return examined


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts modules into a folder that child processes see before everything else."""
    folder = tmp_path / "modules"
    folder.mkdir()
    # The package too, for it may come from a folder on this path.
    inherited = [str(folder), *(part for part in sys.path if part)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(inherited))
    monkeypatch.syspath_prepend(str(folder))
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)

    def write(**sources: str) -> Path:
        for name, source in sources.items():
            (folder / f"{name}.py").write_text(source)
        return folder

    return write


# ---- what is installed


@pytest.mark.process
def test_all_is_well(tmp_path: Path) -> None:
    """The only full run but for the exhaustive ones, so it has a vendor's file and a script."""
    file, script = tmp_path / "umbra.yaml", tmp_path / "train.py"
    file.write_text(GOOD)
    script.write_text("import os\nos.environ['XLA_COMPOSITE_OP'] = 'gelu'\nimport torch\n")
    stats = tmp_path / "stats.jsonl"
    found = examine(
        str(script),
        XLA_COMPOSITE_OP="umbra.*,silu",
        XLA_COMPOSITE_REGISTRY=str(file),
        XLA_COMPOSITE_STATS=str(stats),
        XLA_COMPOSITES_OP="gelu",
    )
    on = ["umbra.gelu", "ptxla.silu", "ptxla.silu_backward"]
    assert sorted(found.found["active"]) == sorted(on)
    assert found.one("composites on")["text"] == "3 in a program that imports torch_xla"
    assert found.one("XLA_COMPOSITE_OP")["text"] == f"umbra.*,silu turns on {', '.join(on)}"
    assert found.one("PJRT_DEVICE")["text"] == "CPU"
    assert found.one("import jax")["level"] == "ok"
    read = {registry["namespace"]: registry for registry in found.found["registries"]}
    assert read["umbra"] == {
        "source": str(file),
        "namespace": "umbra",
        "entries": 1,
        "package": None,
        "builtin": False,
    }
    assert read["ptxla"]["builtin"]
    assert found.one("registry umbra")["text"] == f"1 entry from file, {file}"
    assert found.one("XLA_COMPOSITES_OP") == {
        "level": "warning",
        "subject": "XLA_COMPOSITES_OP",
        "text": "is set, but nothing reads it",
        "advice": "did you mean 'XLA_COMPOSITE_OP'?",
    }
    assert found.one(str(script))["level"] == "ok"
    assert found.one("torch")["text"] == importlib.metadata.version("torch")
    assert not stats.exists()  # the doctor's own processes are not the user's


@pytest.mark.exhaustive
def test_nothing_is_set() -> None:
    found = examine(PJRT_DEVICE=None)
    assert found.found["active"] == []
    assert found.one("PJRT_DEVICE")["text"].startswith("is not set; torch_xla chooses ")
    assert "is not set, so nothing is turned on" in found.one("XLA_COMPOSITE_OP")["text"]
    assert found.one("composites on")["text"] == "none in a program that imports torch_xla"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("decomposition", "allowlist", "level", "text"),
    [
        ("fats", "gelu", "problem", "there is no decomposition 'fats'; did you mean 'fast'?"),
        ("fast", "", "warning", "chooses fast, and no composite is on"),
        ("fast", "gelu", "ok", "chooses fast"),
    ],
)
def test_decompositions(decomposition: str, allowlist: str, level: str, text: str) -> None:
    found = examine(XLA_COMPOSITE_DECOMPOSITION=decomposition, XLA_COMPOSITE_OP=allowlist)
    finding = found.one("XLA_COMPOSITE_DECOMPOSITION")
    assert finding["level"] == level
    assert finding["text"].startswith(text)


@pytest.mark.exhaustive
@pytest.mark.parametrize("allowlist", ["gelu", ""])
def test_plugins_are_switched_off(allowlist: str) -> None:
    found = examine(XLA_COMPOSITE_OP=allowlist, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    finding = found.one("TORCH_DEVICE_BACKEND_AUTOLOAD")
    assert finding["level"] == ("problem" if allowlist else "warning")
    assert finding["advice"].startswith("unset TORCH_DEVICE_BACKEND_AUTOLOAD, or call")
    assert found.found["active"] == []


@pytest.mark.exhaustive
def test_wrong_names_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fault is found, and the good registries are read beside the bad ones."""
    good, wrong, missing = (tmp_path / f"{name}.yaml" for name in ("good", "wrong", "missing"))
    good.write_text(GOOD)
    wrong.write_text("schema: 1\nnamespace: wrong\ncomposites: {a: {op: aten::gellu}}\n")
    install(tmp_path, "broken-ops", monkeypatch, broken_ops="raise SystemExit('gone')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    found = examine(
        XLA_COMPOSITE_OP="gelu,sofmax,-nothing.*",
        XLA_COMPOSITE_REGISTRY=os.pathsep.join(map(str, (good, wrong, missing))),
    )
    assert found.found["registries"][0]["namespace"] == "umbra"
    first, second = found.of("XLA_COMPOSITE_REGISTRY")
    assert first["text"].startswith(f"{wrong}:3: a: PyTorch has no operator aten::gellu")
    assert first["advice"] == f"correct it; see `composites check {wrong}`"
    assert second["text"].startswith(f"{missing}:1: cannot be read: No such file")
    names = [finding["text"] for finding in found.of("XLA_COMPOSITE_OP")]
    assert names[0].startswith("there is no composite 'sofmax'; did you mean 'softmax'?")
    assert names[1].startswith("there is no namespace 'nothing'")
    package = found.one("package broken-ops")
    assert package["level"] == "warning"
    assert "SystemExit: gone" in package["text"]
    assert found.one("import torch_xla")["level"] == "problem"


@pytest.mark.exhaustive
def test_files_that_clash(tmp_path: Path) -> None:
    files = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    for file in files:
        file.write_text(GOOD)
    found = examine(XLA_COMPOSITE_REGISTRY=os.pathsep.join(map(str, files)))
    assert "umbra.gelu is already defined in" in found.one("XLA_COMPOSITE_REGISTRY")["text"]
    assert [registry["namespace"] for registry in found.found["registries"]] == ["ptxla"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["composites", "lowering"])
def test_a_module_that_shadows_the_package(
    name: str, modules: Callable[..., Path], tmp_path: Path
) -> None:
    """With the real torch, which cannot be imported then."""
    modules()
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    (tmp_path / f"{name}.py").write_text("print('not ours')\n")
    found = examine(str(script), XLA_COMPOSITE_OP="gelu")
    assert str(tmp_path / f"{name}.py") in found.one(name)["text"]
    assert found.one(name)["advice"].startswith(f"rename {name}.py")
    assert found.one("import torch")["text"].startswith("fails: the plug-in composites does: ")
    assert found.one("registry ptxla")["level"] == "ok"


# ---- modules in the place of torch and torch_xla


def test_without_torch(modules: Callable[..., Path], tmp_path: Path) -> None:
    """Files can be inspected and lowered without it, so this is no problem by itself."""
    modules(torch=MISSING)
    found = examine(XLA_COMPOSITE_LOG="inof", XLA_COMPOSITE_STATS=str(tmp_path / "no" / "s.jsonl"))
    assert "import torch" not in found.problems
    assert found.one("import torch")["level"] == "warning"
    assert found.one("registries")["advice"] == "make `import torch` work first"
    assert found.one("XLA_COMPOSITE_LOG")["advice"] == "write info or debug"
    assert found.one("XLA_COMPOSITE_STATS")["advice"] == f"make {tmp_path / 'no'}"


@pytest.mark.process
def test_the_table(modules: Callable[..., Path]) -> None:
    modules(torch=MISSING)
    result = CliRunner().invoke(app, ["doctor"], env={"XLA_COMPOSITE_OP": "gelu"})
    assert result.exit_code == 1
    lines = [" ".join(line.strip("│").split()) for line in result.stdout.splitlines()]
    assert [line.split()[2:4] for line in lines if line.startswith("problem")] == [
        ["registries", "│"],
        ["import", "torch"],
    ]
    text = (
        "problem │ import torch │ torch is not installed, so JAX programs with XLA_COMPOSITE_OP end"
        " with an error"
    )
    advice = lines[lines.index(text) + 1]
    assert advice == "│ │ -> pip install '.[torch-xla,cli]' in a clone of torch-xla-composites"
    assert lines[-1].startswith("2 problems, ")


@pytest.mark.process
def test_without_torch_xla(modules: Callable[..., Path]) -> None:
    modules(torch=TORCH, torch_xla=MISSING)
    for allowlist, level, so in (
        ("gelu", "problem", ", so XLA_COMPOSITE_OP is for JAX programs only"),
        ("", "warning", ""),
    ):
        assert examine(XLA_COMPOSITE_OP=allowlist).one("import torch_xla") == {
            "level": level,
            "subject": "import torch_xla",
            "text": f"torch_xla is not installed{so}",
            "advice": "pip install '.[torch-xla,cli]' in a clone of torch-xla-composites",
        }


LAST_WORDS = "import os, sys\nprint('first\\nlast words', file=sys.stderr)\nos._exit(9)"
BROKEN = {
    "raise ImportError('libcudart.so: no such file')": "ImportError: libcudart.so: no such",
    "raise SystemExit(3)": "SystemExit: 3",
    "import os\nos.abort()": "it was ended by SIGABRT",
    "import os\nos._exit(9)": "it ended with exit code 9",
    "import os\nos._exit(0)": "it ends the program",
    LAST_WORDS: "it ended with exit code 9: last words",
    "import time\ntime.sleep(600)": "it did not end within 1 seconds",
}


@pytest.mark.process
def test_a_torch_that_breaks(modules: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for source, text in BROKEN.items():
        modules(torch=source)
        with monkeypatch.context() as patch:
            if "sleep" in source:
                patch.setattr(processes, "TIME_LIMIT", 1.0)
            found = examine()
        assert found.one("import torch")["level"] == "problem", source
        assert found.one("import torch")["text"].startswith(f"fails: {text}")
        assert found.one("registries")["level"] == "problem", source


@pytest.mark.process
def test_a_torch_xla_or_another_plugin_that_breaks(modules: Callable[..., Path]) -> None:
    folder = modules(torch=TORCH, torch_xla="raise ImportError('_XLAC.so: undefined symbol: _ZN5')")
    finding = examine().one("import torch_xla")
    assert finding["text"] == "fails: ImportError: _XLAC.so: undefined symbol: _ZN5"
    assert finding["advice"].startswith(
        "torch and torch_xla have to be of one release; pip install"
    )
    modules(torch_xla=MISSING, other_plugin="import nothing_like_it")
    info = folder / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\nother = other_plugin:load\n")
    finding = examine().one("import torch")
    assert finding["text"] == (
        "fails: the plug-in other does: ModuleNotFoundError: No module named 'nothing_like_it'"
    )
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in finding["advice"]


# ---- versions


@pytest.mark.parametrize(
    ("name", "version", "level", "text"),
    [
        ("numpy", "1.20.0", "problem", "1.20.0 is too old; >="),
        ("jax", "99.0", "problem", "99.0 is too new; >="),
        ("jax", None, "problem", "missing; >="),
        ("torch", None, "warning", "missing; >="),
        ("numpy", "unknown", "warning", "unknown is no version; >="),
        ("transformers", "4.0", "warning", "4.0 is too old; >="),
    ],
)
def test_versions_of_packages(
    name: str, version: str | None, level: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = versions.installed
    monkeypatch.setattr(versions, "installed", lambda n: version if n == name else real(n))
    findings = {f.subject: f for f in versions.version_findings(torch_needed=False)}
    assert findings[name].level == level
    assert findings[name].text.startswith(text)
    assert findings[name].advice.startswith(f"pip install '{name}>=")
    if name == "torch":
        (needed,) = [f for f in versions.version_findings(torch_needed=True) if f.subject == name]
        assert needed.level == "problem"


def test_releases_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"torch": "2.13.0+cpu", "torch_xla": "2.9.0"}
    monkeypatch.setattr(versions, "installed", lambda n: found.get(n, "1.0"))
    findings = {f.subject: f for f in versions.version_findings(torch_needed=True)}
    finding = findings["torch and torch_xla"]
    assert finding.text == "torch_xla 2.9.0 is built for torch 2.9, not for 2.13.0+cpu"
    assert finding.advice == "pip install 'torch==2.9.*' 'torch_xla==2.9.*'"


def test_a_jaxlib_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """jax names the releases of jaxlib that it can be imported with."""
    monkeypatch.setattr(versions, "installed", lambda n: "0.1.0" if n == "jaxlib" else "2.9.0")
    findings = {f.subject: f for f in versions.version_findings(torch_needed=True)}
    finding = findings["jax and jaxlib"]
    assert finding.level == "problem"
    assert finding.text.endswith(", not 0.1.0")
    assert finding.advice == "pip install --upgrade jax jaxlib"
    monkeypatch.undo()
    assert "jax and jaxlib" not in {f.subject for f in versions.version_findings(torch_needed=True)}


def test_a_python_that_is_too_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.python_version", lambda: "3.17.0")
    python = next(versions.version_findings(torch_needed=False))
    assert (python.level, python.subject) == ("problem", "Python")
    assert python.text.startswith("3.17.0, but >=3.11,<3.")


def test_every_requirement_is_looked_at() -> None:
    package = importlib.metadata.distribution(versions.PACKAGE)
    found = {
        requirement.name for requirement in versions.requirements(package, ("", "torch", "cli"))
    }
    assert [r.name for r in versions.requirements(package, ("models",))] == ["transformers"]
    assert {"jax", "jaxlib", "numpy", "protobuf", "pydantic", "torch", "typer"} <= found
    assert not {"pytest", "transformers", "mkdocs"} & found
    assert Requirement("torch>=2.9").specifier.contains("2.9.1+cu128")


def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "PACKAGE", "not-installed-at-all")
    (finding,) = versions.version_findings(torch_needed=False)
    assert (finding.level, finding.text) == ("problem", "is not installed")
    monkeypatch.setattr(plugin, "entry_points", lambda **_: ())
    (finding,) = plugin.plugin_findings({})
    assert (finding.level, finding.subject) == ("problem", "plug-in")
    assert "nothing reads XLA_COMPOSITE_OP" in finding.text


WITHOUT_A_PACKAGE = """
import sys
sys.modules["{}"] = None
sys.argv = ["composites", "doctor"]
from lowering.cli import main
main()
"""


@pytest.mark.process
def test_without_what_the_command_line_needs() -> None:
    for package in ("packaging", "rich", "typer"):
        done = run_python(WITHOUT_A_PACKAGE.format(package))
        assert done.code == 1
        assert done.stderr.startswith(f"error: the command line needs {package}; pip install")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("package", "subjects"),
    [
        ("numpy", ["registries", "import torch"]),
        ("yaml", ["registries", "import torch_xla"]),
        ("google", ["registries", "import torch_xla"]),
        ("jax", ["import jax"]),
        ("jaxlib", ["import jax"]),
    ],
)
def test_a_package_that_breaks(
    package: str, subjects: list[str], modules: Callable[..., Path]
) -> None:
    modules(**{package: f"raise ImportError('{package} is broken')"})
    found = examine(XLA_COMPOSITE_OP="gelu")
    assert found.problems == subjects
    for subject in subjects:
        assert f"ImportError: {package} is broken" in found.one(subject)["text"]


# ---- copies of the package


def copy(folder: Path) -> Path:
    for name, module in (("composites", "allowlist"), ("lowering", "autoload")):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").touch()
        (folder / name / f"{module}.py").touch()
    return folder


def levels(*path: Path | str) -> list[str]:
    return [finding.level for finding in copy_findings(map(str, path))]


def test_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = copy(tmp_path / "one"), copy(tmp_path / "two")
    link = tmp_path / "link"
    link.symlink_to(one)
    monkeypatch.chdir(one)
    assert levels(one, link, "", tmp_path / "nowhere") == ["ok", "ok"]
    assert levels(one, two) == ["warning", "warning"]
    assert levels(tmp_path) == ["problem", "problem"]
    (finding, _) = copy_findings(map(str, (two, one)))
    assert finding.text == (
        f"there are 2 copies: {two / 'composites'} is used, {one / 'composites'} is not"
    )


def test_what_shadows_and_what_does_not(tmp_path: Path) -> None:
    package, script = copy(tmp_path / "package"), tmp_path / "script"
    (script / "composites").mkdir(parents=True)  # without `__init__.py`, it comes last
    assert levels(script, package) == ["ok", "ok"]
    (script / "lowering.py").touch()
    assert levels(script, package) == ["ok", "problem"]
    assert levels(package, script) == ["ok", "ok"]
    (script / "composites" / "__init__.py").touch()
    first, second = copy_findings(map(str, (script, package)))
    assert first.advice.startswith("rename composites, or")
    assert second.advice.startswith("rename lowering.py, or")


# ---- scripts


@pytest.mark.parametrize(
    ("source", "late"),
    [
        ("import torch\nimport os\nos.environ['XLA_COMPOSITE_OP'] = 'gelu'", True),
        ("from torch import nn\nfrom os import environ\nenviron['XLA_COMPOSITE_OP'] = 'a'", True),
        ("import torch_xla.runtime\nimport os\nos.putenv('XLA_COMPOSITE_OP', 'gelu')", True),
        ("import torch\nimport os\nos.environ.setdefault('XLA_COMPOSITE_OP', 'gelu')", True),
        ("import torch\nimport os\nos.environ.update(XLA_COMPOSITE_OP='gelu')", True),
        ("import torch\nimport os\nos.environ.update({'XLA_COMPOSITE_OP': 'gelu'})", True),
        ("import os\nos.environ['XLA_COMPOSITE_OP'] = 'gelu'\nimport torch", False),
        ("import torch\nimport os\nos.environ['PJRT_DEVICE'] = 'CPU'", False),
        ("import torchvision\nimport os\nos.environ['XLA_COMPOSITE_OP'] = 'gelu'", False),
        ("import torch\nprint('XLA_COMPOSITE_OP')", False),
    ],
)
def test_a_variable_that_is_set_too_late(source: str, late: bool, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(source)
    (finding,) = script_findings(script)
    assert finding.level == ("problem" if late else "ok")
    if late:
        text = "line 3 sets XLA_COMPOSITE_OP after torch was imported in line 1"
        assert finding.text == text


@pytest.mark.parametrize("source", [b"import (", b"\x00", b"\xff", None])
def test_a_script_that_is_none(source: bytes | None, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    if source is not None:
        script.write_bytes(source)
    (finding,) = script_findings(script)
    assert finding.level == "problem"
