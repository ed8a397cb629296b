"""`inspect` and `lower` on the command line: outputs, errors, exit codes, no half-written file."""

import json
from pathlib import Path

import pytest
from composites_testing.golden import Parts, check_cases
from composites_testing.stablehlo_commands import invoke

from lowering.stablehlo import Module, bindings

DATA = Path(__file__).parent / "data"
BLOCK = str(DATA / "block.mlir")
pytestmark = pytest.mark.usefixtures("stand_ins")


def test_lower_cleans_by_default(tmp_path: Path) -> None:
    out = tmp_path / "out.mlir"
    assert invoke("lower", DATA / "wrapped_gelu.mlir", "-o", out) == (0, "", "")
    assert "chlo.erf" in out.read_text()
    assert invoke("lower", DATA / "wrapped_gelu.mlir", "-o", out, "--no-clean")[0] == 0
    assert out.read_text() == Module.read(DATA / "wrapped_gelu.mlir").text


def test_lower_with_every_option(tmp_path: Path) -> None:
    out = tmp_path / "out.mlirbc"
    code, _, err = invoke(
        "lower", BLOCK, "-o", out, "--bind", "acme.twice=stand_ins:twice",
        "--custom-call", "acme.tanh=tanh_kernel", "--decompose", "*", "--keep", "acme.*",
        "--legalize-chlo", "--portable", "1.13.0",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert bindings.artifact_version(out.read_bytes()) == (1, 13, 0)
    text = Module.read(out).text
    assert text.count('stablehlo.composite "acme.twice"') == 2
    assert "stablehlo.add %arg0, %arg0" in text
    assert "stablehlo.custom_call @tanh_kernel" in text
    assert "ptxla.outer" not in text


def test_attributes_are_ignored_where_that_is_said(tmp_path: Path) -> None:
    out = tmp_path / "out.mlir"
    bound = ("lower", BLOCK, "-o", out, "--bind", "acme.twice=stand_ins:doubled")
    assert "doubled has no parameter for axis, scale" in invoke(*bound)[2]
    assert invoke(*bound, "--ignore-attribute", "acme.twice=axis,scale") == (0, "", "")
    called = ("lower", BLOCK, "-o", out, "--custom-call", "acme.twice@0=k")
    assert invoke(*called, "--drop-attribute", "acme.twice=axis") == (0, "", "")
    assert "backend_config = {scale = 2.000000e+00 : f32}" in out.read_text()


def test_node_data_has_a_number_for_each_composite(tmp_path: Path) -> None:
    """`inspect` writes the share of the operations; `compare` the error, where there is a kernel.
    Times and shares are in further files."""
    file = tmp_path / "nodes.json"
    wrong = ("--bind", "acme.twice=stand_ins:wrong")
    for command, code, expected in (
        (("inspect", BLOCK), 0, {"0": (1 / 5, None), "2": (1 / 5, None), "3": (2 / 5, None)}),
        (("compare", BLOCK, *wrong), 1, {"0": (2.5, "#f28b82"), "2": (2.5, "#f28b82")}),
    ):
        assert invoke(*command, "--node-data", file)[0] == code
        results = json.loads(file.read_text())["main"]["results"]
        values = {node: (row["value"], row.get("bgColor")) for node, row in results.items()}
        assert values == {
            node: (pytest.approx(value), color) for node, (value, color) in expected.items()
        }
    files = (tmp_path / f"nodes.{name}.json" for name in ("seconds", "share"))
    seconds, share = (json.loads(file.read_text())["main"]["results"] for file in files)
    assert (seconds.keys(), share["3"]["value"]) == ({"0", "2"}, pytest.approx(2 / 5))


def test_mistakes_are_one_line_and_write_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def message(parts: Parts) -> str:
        command, *arguments = parts[""].replace("DATA", str(DATA)).split()
        code, out, err = invoke(command, BLOCK, *arguments)
        assert (out, list(tmp_path.iterdir())) == ("", [])
        return f"exit code {code}\n{err}".replace(str(DATA), "DATA").replace(f"{tmp_path}/", "")

    check_cases(DATA.parent / "mistakes.txt", message)


@pytest.mark.parametrize(
    "command", [["inspect"], ["inspect", "--casts"], ["lower", "-o", "out.mlir"]], ids=" ".join
)
def test_files_that_cannot_be_read(command: list[str], tmp_path: Path) -> None:
    code, _, err = invoke(*command, tmp_path / "absent.mlir")
    assert (code, err) == (1, f"error: {tmp_path}/absent.mlir: No such file or directory\n")
    malformed = tmp_path / "bad.mlir"
    malformed.write_text("module {\n  oops\n}\n")
    code, _, err = invoke(*command, malformed)
    assert code == 1
    assert err.startswith(f"error: {malformed}:2:3: ")
    code, _, err = invoke(*command, tmp_path)
    assert (code, err) == (1, f"error: {tmp_path} is a folder; name a StableHLO file\n")
    text = tmp_path / "program.mlir"
    text.write_bytes(Path(BLOCK).read_bytes())
    code, _, err = invoke(*command, tmp_path)
    assert code == 1
    assert err.startswith(f"error: {tmp_path} is a folder; write {text}, or program.mlirbc")
    _, _, err = invoke(*command, tmp_path.parent)
    assert "is a folder of programs; name one of them: " in err
    assert str(tmp_path) in err
    assert not Path("out.mlir").exists()
