"""`composites compare`: output, exit codes, files, and each likely mistake."""

import json
from pathlib import Path

import pytest
from composites_testing.stablehlo_commands import invoke

DATA = Path(__file__).parent / "data"
BLOCK = DATA / "block.mlir"
pytestmark = pytest.mark.usefixtures("stand_ins")


def compare(*arguments: str | Path) -> tuple[int, str, str]:
    return invoke("compare", *arguments)


def test_a_wrong_kernel_is_exit_code_1_with_all_output(monkeypatch: pytest.MonkeyPatch) -> None:
    both = ("--bind", "acme.twice=stand_ins:wrong", "--bind", "acme.tanh=stand_ins:undecided")
    code, out, err = compare(BLOCK, *both, "--json")
    assert code == 1
    assert len(json.loads(out)["calls"]) == 2
    lines = [line for line in err.splitlines() if line.startswith("error: acme.t")]
    assert len(lines) == 2
    assert any("wrong differs from the decomposition; its error is 2.5" in line for line in lines)
    assert any("undecided cannot be lowered" in line for line in lines)
    wrong = (BLOCK, "--bind", "acme.twice=stand_ins:wrong")
    assert compare(*wrong, "--tolerance", "3")[0] == 0
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(DATA / "tolerances.yaml"))
    assert compare(*wrong)[0] == 0
    assert compare(*wrong, "--tolerance", "2")[0] == 1


@pytest.mark.slow
def test_a_library(library: Path) -> None:
    with_library = (BLOCK, "--library", library, "--json", "--custom-call")
    code, out, _ = compare(*with_library, "acme.twice@0=twice_right")
    assert code == 0
    (call,) = json.loads(out)["calls"]
    assert (call["kernel"], call["numbers"]["error"]) == ("twice_right", 0.0)
    ignored = ("--ignore-attribute", "acme.twice=axis,scale")
    assert compare(*with_library, "acme.twice=twice_no_attribute", *ignored)[0] == 0
