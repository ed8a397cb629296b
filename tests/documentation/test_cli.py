"""The command line: what a user sees for each command and each likely mistake."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest
from rich.table import Table
from typer.testing import CliRunner, Result

import composites
from composites.registry.packages import builtin_registry_path
from lowering.cli.app import app
from lowering.cli.output import print_table
from lowering.cli.run import Watched, WatchedGraph, composites_table
from lowering.stablehlo import Module, inspect
from lowering.stats.data import Stats

ROOT = Path(__file__).parents[2]
NARROW = {"COLUMNS": "40"}
"""Variables of a terminal. Tests print to no terminal, so nothing may depend on them."""


def invoke(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), env={**NARROW, **(env or {})})


@pytest.mark.process
def test_codegen_writes_and_checks(tmp_path: Path) -> None:
    output = tmp_path / "the hooks.py"
    registry = str(ROOT / "registry.yaml")
    stale = invoke("codegen", registry, "-o", str(output), "--check")
    assert stale.exit_code == 1
    assert f"{output} is stale; run: composites codegen {registry} -o '{output}'" in stale.stderr
    assert not output.exists()
    assert invoke("codegen", registry, "-o", str(output)).exit_code == 0
    assert output.read_text() == (ROOT / "lowering" / "generated" / "ptxla.py").read_text()
    assert invoke("codegen", registry, "-o", str(output), "--check").exit_code == 0


def test_a_wrong_file_or_folder_writes_nothing(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        "schema: 1\nnamespace: acme\ncomposites:\n  a: {op: aten::gellu}\n  b: {opp: aten::gelu}\n"
    )
    checked = invoke("check", str(wrong))
    assert checked.exit_code == 1
    assert checked.stderr.count(f"{wrong}:") == 2
    written = invoke("codegen", str(wrong), "-o", str(tmp_path / "hooks.py"))
    assert (written.exit_code, written.stderr) == (1, checked.stderr)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["wrong.yaml"]
    nowhere = invoke("codegen", str(ROOT / "registry.yaml"), "-o", str(tmp_path / "no/hooks.py"))
    assert nowhere.exit_code == 1
    assert nowhere.stderr == f"error: there is no folder {tmp_path / 'no'}; create it\n"


def test_check_and_env_print_json(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("schema: 1\nnamespace: acme\ncomposites:\n  a: {op: aten::gellu}\n")
    result = invoke("check", "--json", str(file))
    assert (result.exit_code, result.stderr) == (1, "")
    (problem,) = json.loads(result.stdout)["problems"]
    assert (problem["file"], problem["line"], problem["entry"]) == (str(file), 4, "a")
    file.write_text("schema: 1\nnamespace: acme\ncomposites:\n  a: {op: aten::gelu}\n")
    result = invoke("check", "--json", str(file))
    assert (result.exit_code, json.loads(result.stdout)["problems"]) == (0, [])
    variables = json.loads(invoke("env", "--json", env={"XLA_COMPOSITE_OP": "gelu"}).stdout)
    assert variables["variables"][0]["name"] == "XLA_COMPOSITE_OP"
    assert variables["variables"][0]["value"] == "gelu"


def test_help_has_all_names_in_full() -> None:
    result = invoke("-h", env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert "codegen" in invoke().output
    assert "inspect" in result.stdout
    assert "--install-completion" in result.stdout
    assert "--widen" not in result.stdout
    result = invoke("lower", "-h", env={"COLUMNS": "80"})
    words = result.stdout.replace(",", " ").split()
    assert not {"-h", "--help", "--unmerge-batch-dimensions", "--no-clean"}.difference(words)


def test_mistakes_in_arguments_have_exit_code_2() -> None:
    block = str(ROOT / "tests/stablehlo/data/block.mlir")
    wrong = [
        *(["nosuch"], ["list", "--nope"], ["lower", block], ["init", "9"]),
        ["lower", block, "-o", "out.mlir", "--target", "nope"],
        ["inspect", block, "--casts", "--against", "some.lock"],
        ["verify", "--dtypes", "f99"],
        ["export", "model.py:net", "-o", "out", "--mesh", "4"],
    ]
    codes = {" ".join(arguments): invoke(*arguments).exit_code for arguments in wrong}
    assert set(codes.values()) == {2}, codes


def test_dash_is_stdin(tmp_path: Path) -> None:
    block = ROOT / "tests/stablehlo/data/block.mlir"
    output = tmp_path / "out.mlir"
    runner, data = CliRunner(), block.read_bytes()
    inspected = runner.invoke(app, ["inspect", "-", "--json"], input=data)
    assert json.loads(inspected.stdout)["operations"] == 5
    lowered = runner.invoke(app, ["lower", "-", "-o", str(output), "--decompose", "*"], input=data)
    assert (lowered.exit_code, lowered.stderr) == (0, "")
    assert "stablehlo.composite" not in output.read_text()
    wrong = runner.invoke(app, ["compare", "-"], input=b"module {")
    assert wrong.stderr.startswith("error: -:1:")


def test_narrow_terminals_get_rows_in_place_of_narrow_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    table = Table("composite", "attributes", "types", title="composites", caption="2 operations")
    table.add_column("count", justify="right")
    table.add_column("share", justify="right")
    table.add_row("acme.a_name_that_is_long", "axis=1", "4x8xf32 -> 4x8xf32", "7", "50.0%")
    table.add_row("acme.b", "", "f32 -> f32", "1", "50.0%")
    monkeypatch.setenv("COLUMNS", "60")
    print_table(table)
    plain = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert [line.rstrip() for line in plain.splitlines()] == [
        "composites",
        "acme.a_name_that_is_long",
        "  attributes: axis=1",
        "  types: 4x8xf32 -> 4x8xf32",
        "  count: 7  share: 50.0%",
        "acme.b",
        "  types: f32 -> f32",
        "  count: 1  share: 50.0%",
        "2 operations",
    ]
    monkeypatch.setenv("COLUMNS", "80")
    print_table(table)
    assert "acme.b" in capsys.readouterr().out.partition("share")[2]


def test_list() -> None:
    names = ["ptxla.silu", "ptxla.silu_backward"]
    result = invoke("list", env={"XLA_COMPOSITE_OP": "silu"})
    on = [line for line in result.stdout.splitlines() if line.endswith("│ yes │")]
    assert [line.split()[1] for line in on] == names
    result = invoke("list", "--json", env={"XLA_COMPOSITE_OP": "silu"})
    entries = {entry["name"]: entry for entry in json.loads(result.stdout)["composites"]}
    assert [name for name in entries if entries[name]["on"]] == names
    gelu = entries["ptxla.gelu"]
    assert (gelu["op"], gelu["version"], gelu["on"]) == ("aten::gelu", 1, False)
    assert (gelu["attributes"], gelu["file"]) == (["approximate"], str(builtin_registry_path()))
    wrong = invoke("list", env={"XLA_COMPOSITE_OP": "sofmax"})
    assert wrong.exit_code == 1
    assert "there is no composite 'sofmax'; did you mean 'softmax'?" in wrong.stderr


def test_a_table_in_a_pipe_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {line.split()[1]: line for line in invoke("list").stdout.splitlines() if " v" in line}
    assert "ptxla.upsample_bilinear2d_backward" in rows
    assert "…" not in "".join(rows.values())
    table = Table("a", title="one two three", caption="four five six")
    table.add_row("1")
    print_table(table)
    printed = capsys.readouterr().out
    assert "one two three" in printed
    assert "four five six" in printed


def test_env_in_a_pipe_shows_values_whole() -> None:
    files = ":".join(f"/some/where/[{n}].yaml" for n in range(20))
    assert f" {files} " in invoke("env", env={"XLA_COMPOSITE_REGISTRY": files}).stdout


def test_both_modules_are_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["composites", "--version"])
    for module in ("composites", "composites.cli"):
        monkeypatch.delitem(sys.modules, "composites.cli", raising=False)
        with pytest.raises(SystemExit):
            runpy.run_module(module, run_name="__main__")
        assert capsys.readouterr().out == f"composites {composites.__version__}\n"


def test_schema_is_json_schema() -> None:
    schema = json.loads(invoke("schema").stdout)
    assert schema["required"] == ["schema", "namespace", "composites"]
    locked = json.loads(invoke("schema", "--lock").stdout)
    assert locked["required"] == ["format", "namespace", "made_with", "contracts"]


@pytest.mark.process
def test_run_shows_what_was_preserved(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch, torch_xla\n"
        "x = torch.ones(4, requires_grad=True, device='xla')\n"
        "for _ in range(2):\n"
        "    torch.nn.functional.gelu(x).sum().backward()\n"
        "    torch_xla.sync()\n"
        "sys.exit(int(sys.argv[1]))\n"
    )
    result = invoke("run", str(script), "3", env={"XLA_COMPOSITE_OP": "gelu"})
    assert result.exit_code == 3
    assert "ptxla.gelu_backward" in result.stdout
    assert "2 different graphs, 2 runs" in result.stdout


@pytest.mark.process
def test_run_of_a_compiled_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, torch_xla\n"
        "optimizer = torch.optim.AdamW([torch.ones(4, device='xla', requires_grad=True)])\n"
        "norm = torch.compile(torch.nn.LayerNorm(4).to('xla'), backend='openxla')\n"
        "for _ in range(3):\n"
        "    (x,) = optimizer.param_groups[0]['params']\n"
        "    norm(x).sum().backward()\n"
        "    optimizer.step()\n"
        "    torch_xla.sync()\n"
    )
    result = invoke("run", str(script), env={"XLA_COMPOSITE_OP": "all"})
    assert result.exit_code == 0
    assert "only the first run is seen" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines()]
    counts = {row[1]: row[-8:-2:2] for row in rows if len(row) > 9}  # graphs, calls, run
    assert counts["ptxla.adamw"] == ["2", "2", "3"]  # the first step's graph is another one
    assert counts["ptxla.layer_norm"] == ["1", "1", "1"]
    assert any(name.startswith("ptxla.layer_norm_b") for name in counts)


def test_run_counts_one_graph_as_one() -> None:
    graph = WatchedGraph(runs=1, report=inspect(Module.parse("module {}")), compiled=False)
    assert composites_table(Watched(0, (graph,), Stats({}))).caption == "1 graph, 1 run"


def test_run_of_what_runs_no_graph(tmp_path: Path) -> None:
    result = invoke("run", "nowhere.py")
    assert (result.exit_code, result.stderr) == (1, "error: there is no file nowhere.py\n")
    script = tmp_path / "script.py"
    script.write_text("import os\nassert 'hugetlb' in os.environ['GLIBC_TUNABLES']\n")
    result = invoke("run", str(script))
    assert result.exit_code == 1
    assert "ran no graph on an XLA device" in result.stderr
    script.write_text("import os\nos._exit(3)\n")
    result = invoke("run", "--check-every", "2", str(script))
    assert result.exit_code == 3
    assert "which a signal or os._exit skips" in " ".join(result.stdout.split())
