"""`composites doctor`: each fault is found, named, and survived.

Modules named torch and torch_xla, before the real ones, do quickly what broken ones do.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from composites_testing.command_line import invoke
from composites_testing.packages import install
from composites_testing.processes import run_python

from composites.installed import installed as real
from lowering.cli import doctor

TORCH = """
from importlib.metadata import entry_points
for point in entry_points(group="torch.backends"):
    try:
        point.load()()
    except Exception as error:
        raise RuntimeError(f"Failed to load the backend extension: {point.name}.") from error
"""
"""The part of `import torch` that runs plug-ins, in torch 2.9."""
MISSING = "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)"
GOOD = "schema: 1\nnamespace: umbra\ncomposites:\n  gelu: {op: aten::gelu}\n"


def examine(*arguments: str, **environment: str | None) -> dict[str, dict[str, str]]:
    """The first finding on each subject."""
    result = invoke("doctor", "--json", *arguments, **environment)
    assert result.stderr == ""
    printed = json.loads(result.stdout)
    problems = [f for f in printed["findings"] if f["level"] == "problem"]
    assert printed["problems"] == len(problems)
    assert result.exit_code == (1 if problems else 0), problems
    return {finding["subject"]: finding for finding in reversed(printed["findings"])}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts modules into a folder that child processes see before everything else."""
    folder, empty = tmp_path / "modules", tmp_path / "empty"
    folder.mkdir()
    empty.mkdir()
    # The package too, for it may come from a folder on this path.
    inherited = [str(folder), *(part for part in sys.path if part)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(inherited))
    monkeypatch.chdir(empty)

    def write(**sources: str) -> Path:
        for name, source in sources.items():
            (folder / f"{name}.py").write_text(source)
        return folder

    return write


@pytest.mark.process
def test_all_is_well(tmp_path: Path) -> None:
    """A full run, the only one but for exhaustive ones, includes a vendor's file and a script."""
    file, script = tmp_path / "umbra.yaml", tmp_path / "train.py"
    file.write_text(GOOD)
    script.write_text("import os\nos.environ['XLA_COMPOSITE_OP'] = 'gelu'\nimport torch\n")
    stats = tmp_path / "stats.jsonl"
    findings = examine(
        str(script),
        XLA_COMPOSITE_OP="umbra.*,silu",
        XLA_COMPOSITE_REGISTRY=str(file),
        XLA_COMPOSITE_STATS=str(stats),
        XLA_COMPOSITES_OP="gelu",
    )
    on = "umbra.gelu, ptxla.silu, ptxla.silu_backward"
    assert findings["XLA_COMPOSITE_OP"]["text"] == f"umbra.*,silu turns on {on}"
    assert findings["composites on"]["text"] == "3 in a program that imports torch_xla"
    assert findings["XLA_COMPOSITE_REGISTRY"]["text"].startswith(f"umbra (1), {file}\nptxla (")
    (warning,) = [f["text"] for f in findings.values() if f["level"] == "warning"]
    assert warning.endswith("nothing reads it; did you mean 'XLA_COMPOSITE_OP'?")
    assert not stats.exists()  # the doctor's own process is not the user's


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("environment", "subject", "text"),
    [
        ({"XLA_COMPOSITE_OP": "sofmax"}, "XLA_COMPOSITE_OP", "did you mean 'softmax'?"),
        ({"XLA_COMPOSITE_DECOMPOSITION": "fats"}, "XLA_COMPOSITE_OP", "did you mean 'fast'?"),
        (
            {"XLA_COMPOSITE_OP": "gelu", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            "composites on",
            "nothing is on, because no plug-in read XLA_COMPOSITE_OP",
        ),
        ({"XLA_COMPOSITE_CHECK_EVERY": "often"}, "composites on", "must be a number of calls"),
        ({"XLA_COMPOSITE_STATS": "gone/s.jsonl"}, "XLA_COMPOSITE_STATS", "cannot be written"),
    ],
)
def test_variables(environment: dict[str, str], subject: str, text: str) -> None:
    findings = examine(**environment)
    assert [s for s, f in findings.items() if f["level"] == "problem"] == [subject]
    assert text in findings[subject]["text"]
    autoload = "TORCH_DEVICE_BACKEND_AUTOLOAD"
    assert (autoload in findings) == (autoload in environment)


@pytest.mark.exhaustive
def test_registries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every problem of a file is listed, with a warning for each package that is left out."""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("schema: 1\nnamespace: wrong\ncomposites: {a: {op: aten::gellu}}\n")
    install(tmp_path, "broken-ops", monkeypatch, broken_ops="raise SystemExit('gone')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    finding = examine(XLA_COMPOSITE_REGISTRY=f"{wrong}{os.pathsep}missing.yaml")
    text = finding["XLA_COMPOSITE_REGISTRY"]["text"]
    assert f"{wrong}:3: a: PyTorch has no operator aten::gellu" in text
    assert "missing.yaml:1: cannot be read: No such file" in text
    assert [f for f in examine().values() if "SystemExit: gone" in f["text"]]


@pytest.mark.process
@pytest.mark.parametrize("name", ["composites", "lowering"])
def test_a_module_that_shadows_the_package(name: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    (tmp_path / f"{name}.py").write_text("print('not ours')\n")
    finding = examine(str(script))["packages"]
    assert finding["level"] == "problem"
    assert str(tmp_path / f"{name}.py") in finding["text"]
    assert finding["advice"].startswith("rename it, or")


@pytest.mark.parametrize("allowlist", ["gelu", ""])
def test_without_torch(allowlist: str, modules: Callable[..., Path]) -> None:
    """Files are inspected and lowered without PyTorch, so its absence alone is not a problem."""
    modules(torch=MISSING)
    result = invoke("doctor", XLA_COMPOSITE_OP=allowlist)
    level = "problem" if allowlist else "warning"
    lines = [" ".join(line.strip("│").split()) for line in result.stdout.splitlines()]
    text = "import torch │ fails: ModuleNotFoundError: No module named 'torch'"
    advice = lines[lines.index(f"{level} │ {text}") + 1]
    assert "pip install '.[torch-xla,cli]' in a clone of torch-xla-composites" in advice
    assert lines[-1] == ("1 problem, no warnings" if allowlist else "no problems, 1 warning")


BROKEN = {
    "raise ImportError('libcudart.so: no such file')": "ImportError: libcudart.so: no such",
    "raise SystemExit(3)": "SystemExit: 3",
    "import os\nos.abort()": "it ended with SIGABRT",
    "import os\nos._exit(0)": "it ended with exit code 0",
    "import os, sys\nprint('first\\nlast words', file=sys.stderr)\nos._exit(9)": (
        "it ended with exit code 9: last words"
    ),
    "import time\ntime.sleep(600)": "it did not end within 3 seconds",
}


@pytest.mark.process
def test_a_torch_that_breaks(modules: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for source, text in BROKEN.items():
        modules(torch=source)
        with monkeypatch.context() as patch:
            if "sleep" in source:
                patch.setattr(doctor, "TIME_LIMIT", 3.0)
            findings = examine()
        assert findings["import torch"]["level"] == "problem", source
        assert findings["import torch"]["text"].startswith(f"fails: {text}")


@pytest.mark.process
def test_a_plugin_that_breaks(modules: Callable[..., Path]) -> None:
    info = modules(torch=TORCH, other_plugin="import nothing_like_it") / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\nother = other_plugin:load\n")
    finding = examine()["import torch"]
    assert finding["text"] == (
        "fails: RuntimeError: Failed to load the backend extension: other., caused by"
        " ModuleNotFoundError: No module named 'nothing_like_it'"
    )
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in finding["advice"]


@pytest.mark.process
def test_without_what_the_command_line_needs() -> None:
    for package in ("rich", "typer"):
        done = run_python(f"import sys\nsys.modules[{package!r}] = None\n" + MAIN)
        assert done.code == 1
        assert done.stderr.startswith(f"error: the command line needs {package}; pip install")


MAIN = "sys.argv = ['composites', 'doctor']\nfrom lowering.cli import main\nmain()\n"


def with_versions(monkeypatch: pytest.MonkeyPatch, **versions: str | None) -> None:
    monkeypatch.setattr(doctor, "installed", lambda n: versions[n] if n in versions else real(n))


@pytest.mark.parametrize(
    ("name", "version", "level", "text"),
    [
        ("numpy", "1.20.0", "problem", "1.20.0 is installed; >=1"),
        ("jax", "99.0", "problem", "99.0 is installed; >=0"),
        ("jax", None, "problem", "nothing is installed; >=0"),
        ("numpy", "unknown", "problem", "unknown is installed; >=1"),
        ("transformers", "4.0", "warning", "4.0 is installed; >=5"),
    ],
)
def test_versions_of_packages(
    name: str, version: str | None, level: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_versions(monkeypatch, **{name: version})
    findings = {f.subject: f for f in doctor.installation_findings(frontend_works=False)}
    assert findings[name].level == level
    assert findings[name].text.startswith(text)
    assert findings[name].advice.startswith(f"pip install '{name}>=")


def test_a_fork_of_torch_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that is a problem becomes a warning in a fork that has what is needed."""
    with_versions(monkeypatch, torch="2.11.0", torch_xla="2.11.0", **{"torch-xla": "2.11.0"})
    for works, level in ((True, "warning"), (False, "problem")):
        findings = {f.subject: f for f in doctor.installation_findings(frontend_works=works)}
        assert findings["torch"].level == findings["torch-xla"].level == level


@pytest.mark.parametrize(
    ("torch", "extra", "levels"),
    [
        ("2.14.1", "torch", ["ok", "warning"]),
        ("2.9.1+cpu", "jax", ["ok", "warning"]),
        ("2.8.0", "torch-xla", ["problem", "problem"]),
        (None, "", [None, "problem"]),
    ],
)
def test_without_torch_xla(
    torch: str | None, extra: str, levels: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An extra that needs no torch_xla is enough for exports and JAX programs."""
    with_versions(monkeypatch, torch=torch, torch_xla=None, **{"torch-xla": None})
    monkeypatch.setenv("XLA_COMPOSITE_OP", "gelu")
    assert doctor.installed_extra() == extra
    versions = {f.subject: f.level for f in doctor.installation_findings(frontend_works=False)}
    errors = ["ModuleNotFoundError: No module named 'torch_xla'"]
    (finding,) = doctor.step_findings({"import torch_xla": {"errors": errors}})
    assert [versions.get("torch"), finding.level] == levels


def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGE", "not-installed-at-all")
    (finding,) = doctor.installation_findings(frontend_works=False)
    assert finding.level == "problem"
    assert finding.text == "is not installed, so nothing reads XLA_COMPOSITE_OP"
