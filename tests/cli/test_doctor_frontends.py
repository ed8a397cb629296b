"""`composites doctor` with torch_xla, with the fx frontend alone, and without PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from lowering.cli.doctor import plugin, versions
from lowering.cli.doctor.processes import Program, Told
from lowering.frontends.torch_xla import capabilities

ADVICE = "'.[{}]' in a clone of torch-xla-composites"


def findings(steps: dict[str, dict[str, Any]], **environment: str) -> dict[str, Any]:
    """The findings on a program that told this, by subject."""
    told = Told(Program({"start": {"path": []}, **steps}, None), None, None)
    return {found.subject: found for found in plugin.program_findings(told, environment)}


def missing(name: str) -> dict[str, Any]:
    return {"errors": [f"ModuleNotFoundError: No module named {name!r}"]}


def installed(monkeypatch: pytest.MonkeyPatch, **found: str) -> None:
    real = versions.installed
    known = {"torch": None, "torch_xla": None, "torch-xla": None, **found}
    monkeypatch.setattr(versions, "installed", lambda n: known[n] if n in known else real(n))


FX = {
    "torch": {"file": "/torch/__init__.py"},
    "torch_xla": missing("torch_xla"),
    "plugin": {"file": "/lowering/autoload.py"},
}


def test_the_fx_frontend_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, torch="2.14.1")
    well = FX | {"recorder": {"errors": []}, "active": {"names": []}, "jax": {"errors": []}}
    found = findings(well)
    assert {finding.level for finding in found.values()} == {"ok"}
    assert found["composites on"].text.endswith("composites.export then takes all")
    assert versions.install() == f"pip install {ADVICE.format('torch,cli')}"


def test_a_fx_frontend_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, torch="2.14.1")
    broken = FX | {"recorder": {"errors": ["ImportError: gone"]}, "jax": {"errors": []}}
    found = findings(broken)
    assert found["frontend fx"].level == "problem"
    assert "ImportError: gone" in found["frontend fx"].text
    assert ADVICE.format("torch,cli") in found["frontend fx"].advice
    assert "composites on" not in found
    assert found["import jax"].level == "ok"


FOR_JAX = {"torch": {"file": "/torch/__init__.py"}, "torch_xla": missing("torch_xla")}


@pytest.mark.parametrize("allowlist", ["gelu", ""])
def test_jax_beside_a_pytorch_without_torch_xla(
    allowlist: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the extra `jax` allows is no problem: the variable works in JAX programs."""
    installed(monkeypatch, torch="2.9.1+cpu")
    found = findings(FOR_JAX | {"jax": {"errors": []}}, XLA_COMPOSITE_OP=allowlist)
    so = ", so XLA_COMPOSITE_OP is for JAX programs only" if allowlist else ""
    assert found["import torch_xla"].level == "warning"
    assert found["import torch_xla"].text == f"torch_xla is not installed{so}"
    assert ADVICE.format("torch-xla,cli") in found["import torch_xla"].advice
    assert found["import jax"].text == "works beside torch"
    of_versions = {f.subject: f.level for f in versions.version_findings(torch_needed=True)}
    assert of_versions["torch"] == "ok"
    assert "torch-xla" not in of_versions
    assert versions.install() == f"pip install {ADVICE.format('jax,cli')}"


def test_a_pytorch_that_no_extra_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, torch="2.8.0")
    found = findings(FOR_JAX | {"jax": {"errors": []}}, XLA_COMPOSITE_OP="gelu")
    assert found["import torch_xla"].level == "problem"
    of_versions = {f.subject: f.level for f in versions.version_findings(torch_needed=True)}
    assert of_versions["torch"] == of_versions["torch-xla"] == "problem"


def test_jax_with_the_variable_and_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    steps = {"torch": missing("torch"), "jax": {"errors": []}}
    found = findings(steps, XLA_COMPOSITE_OP="gelu")["import torch"]
    assert found.level == "problem"
    assert found.text.endswith("so JAX programs with XLA_COMPOSITE_OP end with an error")


def test_jax_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read and lowered, and programs run; jax is looked at too."""
    installed(monkeypatch)
    found = findings({"torch": missing("torch"), "jax": {"errors": []}})
    assert found.keys() == {"import torch", "import jax"}
    assert found["import jax"].text == "works"
    assert found["import torch"].level == "warning"
    assert ADVICE.format("torch,cli") in found["import torch"].advice
    assert versions.install() == f"pip install {ADVICE.format('cli')}"
    of_versions = [f for f in versions.version_findings(torch_needed=False) if f.level != "ok"]
    assert [finding.subject for finding in of_versions if "torch" in finding.subject] == ["torch"]
    found = findings({"torch": missing("torch"), "jax": {"errors": ["ImportError: no jaxlib"]}})
    assert found["import jax"].level == "problem"


def test_a_fork_of_torch_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it lacks is a problem, and its version is none."""
    installed(monkeypatch, torch="2.11.0", **{"torch_xla": "2.11.0", "torch-xla": "2.11.0"})
    works = versions.version_findings(torch_needed=True, torch_xla_works=True)
    levels = {finding.subject: finding for finding in works}
    assert levels["torch"].level == "warning"
    assert levels["torch"].text.startswith("2.11.0 is untested; >=2.9.0,<2.10 is tested.")
    refused = versions.version_findings(torch_needed=True)
    assert {f.subject: f.level for f in refused}["torch"] == "problem"
    steps: dict[str, dict[str, Any]] = {
        "torch": {"file": "/torch/__init__.py"},
        "torch_xla": {"file": "/torch_xla/__init__.py"},
        "capabilities": {"missing": ["torch_xla._XLAC._xla_user_computation"]},
        "jax": {"errors": []},
    }
    lacking = findings(steps)["names in torch_xla"]
    assert lacking.level == "problem"
    assert "lacks torch_xla._XLAC._xla_user_computation" in lacking.text
    assert lacking.advice == capabilities.ADVICE
