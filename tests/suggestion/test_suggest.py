"""`composites suggest`: whose instructions are, what the draft holds, and that it works."""

import json
from pathlib import Path
from typing import Any

import pytest
from composites_testing.command_line import invoke
from composites_testing.golden import Parts, check_cases

from composites.registry.formatting import formatted
from composites.registry.validation import load_registry
from lowering import activation

pytestmark = pytest.mark.usefixtures("nothing_on")


def data_of(*arguments: object) -> dict[str, Any]:
    result = invoke("suggest", *arguments, "--json")
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def rows_of(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in rows}


def test_every_instruction_is_that_of_a_call(model: Path) -> None:
    report = data_of(f"{model}:net", "--ops", "gelu")
    whole = report["outside"]
    operators = rows_of(report["operators"])
    assert sum(row["instructions"] for row in operators.values()) == whole
    functions = rows_of(report["functions"])

    def instructions(name: str) -> int:
        amount: int = functions[f"model_of_suggest:{name}"]["instructions"]
        return amount

    assert 0.9 * whole <= instructions("Net.forward") <= whole
    assert instructions("Norm._scaled") < instructions("Norm.forward") < instructions("Net.forward")
    # Functions come before layers.
    order = [target.partition(":")[2] for target in functions]
    assert order.index("Norm.forward") < order.index("Norm._scaled") < order.index("Net.forward")
    assert order.index("soft_cap") < order.index("Net.forward")
    norm = functions["model_of_suggest:Norm.forward"]
    assert norm["calls"] == 1
    assert (norm["tensors_in"], norm["tensors_out"]) == (2, 1)
    assert report["composites"] == 2
    # The backward of a function counts as its own.
    trained = instructions("soft_cap")
    functions = rows_of(data_of(f"{model}:net", "--ops", "gelu", "--forward")["functions"])
    assert trained > 1.5 * instructions("soft_cap")


def test_a_draft_passes_check_and_does_what_it_says(model: Path) -> None:
    draft = model.parent / "draft.yaml"
    result = invoke("suggest", f"{model}:net", "-o", draft)
    assert result.exit_code == 0, result.output
    assert "draft: norm" in result.stdout
    entries = {e.name: e for e in load_registry(draft).composites}
    norm = entries["norm"]
    assert norm.functions == ("model_of_suggest:Norm.forward",)
    assert norm.operands == ("x", "self.weight")
    assert [(a.name, a.argument) for a in norm.attributes] == [("eps", "self.eps")]
    assert norm.backward == "derive"
    assert dict(entries["soft_cap"].example).keys() == {"x", "cap"}
    assert "norm_scaled" not in entries
    checked = invoke("check", draft)
    assert (checked.exit_code, checked.stdout) == (0, "1 file checked, no problems found\n")
    text = draft.read_text()
    assert "\nschema: 2\n" in text
    assert formatted(text, "draft.yaml") == text
    report = data_of(f"{model}:net")
    assert report["draft"] == text
    assert report["after"] < 0.7 * report["outside"]
    note = rows_of(report["functions"])["model_of_suggest:Gate.forward"]["note"]
    assert note == "it reads self.act, a Tanh; write an entry with `adapt`"


@pytest.mark.slow
def test_turning_a_draft_on_lowers_what_is_outside(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = model.parent / "draft.yaml"
    invoke("suggest", f"{model}:net", "-o", draft)
    measured = data_of(f"{model}:net")["after"]
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(draft))
    activation.catalog.cache_clear()
    report = data_of(f"{model}:net")
    assert report["outside"] == measured
    assert "draft.norm" in report["on"]
    assert report["draft"] is None


def test_entries_that_are_off_are_named_and_not_drafted(model: Path) -> None:
    report = data_of(f"{model}:net", "--ops", "mm")
    operators = rows_of(report["operators"])
    assert operators["aten::gelu"]["note"] == "ptxla.gelu names it"
    assert operators["aten::gelu_backward"]["note"] == "ptxla.gelu_backward names it"
    assert not any("gelu" in name for name in report["entries"])


def test_a_draft_of_a_function_that_takes_an_object(tmp_path: Path) -> None:
    file = tmp_path / "object_of_suggest.py"
    file.write_text(
        "import torch\n"
        "class Config:\n"
        "    def __init__(self):\n"
        "        self.cap = 3.0\n"
        "def capped(x, config):\n"
        "    return torch.tanh(x / config.cap).sin().cos() * config.cap\n"
        "class Capped(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return {'out': capped(x, Config())}\n"
        "def model():\n"
        "    return Capped(), (torch.rand(3, 4),)\n"
    )
    report = data_of(f"{file}:model", "--forward")
    assert rows_of(report["functions"])["object_of_suggest:capped"]["entry"] == "capped"
    assert "attributes: {cap: config.cap}" in report["draft"]


def test_mistakes(model: Path) -> None:
    def message(parts: Parts) -> str:
        result = invoke("suggest", *parts[""].replace("MODEL", str(model)).split())
        assert result.stdout == ""
        error = result.stderr.lstrip()  # rich 13 ends its progress with a line
        return f"exit code {result.exit_code}\n{error}".replace(str(model), "MODEL")

    check_cases(Path(__file__).parent / "golden" / "mistakes.txt", message)
