"""`python -m benchmarks.export --frontend`: training steps on both frontends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import export
from benchmarks.frontends import Recording, Row, markdown, read, write
from lowering.frontends.chosen import chosen

OTHER = {"xla": "fx", "fx": "xla"}


def test_the_table_of_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A recording of the other frontend stands in for one that another environment makes."""
    mine, theirs, page = tmp_path / "mine.json", tmp_path / "theirs.json", tmp_path / "page.md"
    frontend = chosen()
    command = ["--frontend", frontend, "--models", "gpt2", "--repeats", "1"]
    export.main([*command, "--record", str(mine)])
    recorded = read(mine, OTHER[frontend])
    (row,) = recorded.rows
    assert not row.failure
    assert row.composites["ptxla.layer_norm"] == row.composites["ptxla.layer_norm_backward"]
    assert row.difference < 1e-5
    write(theirs, replace(recorded, frontend=OTHER[frontend]))
    export.main([*command, "--beside", str(theirs), "--markdown", str(page)])
    assert page.read_text(encoding="utf-8") in capsys.readouterr().out
    assert f"{sum(row.composites.values())}, the same" in page.read_text(encoding="utf-8")
    assert "1 models, 1 with the same composites by name and number" in page.read_text("utf-8")


def test_composites_that_differ_are_named() -> None:
    one = Row("gpt2", 1.0, 100, {"ptxla.gelu": 2, "ptxla.softmax": 1}, 0.0)
    other = replace(one, seconds=2.0, bytes=150, composites={"ptxla.gelu": 1, "ptxla.softmax": 1})
    failed = Row("clip", 0.0, 0, {}, 0.0, "reads the value of a tensor")
    page = markdown(Recording("xla", "", [one, failed]), Recording("fx", "", [other, failed]))
    assert "| gpt2 | 1.00 s | 2.00 s | 2.00 | 1.50 | ptxla.gelu 2 -> 1 |" in page
    assert "| clip | xla: reads the value of a tensor; fx: reads the value" in page
    assert "1 models, 0 with the same composites" in page


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--models", "gpt2"], "--models, --record and --beside go with --frontend"),
        (["--frontend", "fx", "--paths", "gpt2"], "--paths is about torch_xla"),
        (["--frontend", "fx", "--markdown", "page.md"], "--markdown needs --beside FILE"),
        (["--frontend", "fx", "--models", "gtp2"], "no model gtp2; the models are: gpt2, "),
        (["--frontend", "fx", "--beside", "nothing.json"], "nothing.json is not what `--record`"),
    ],
)
def test_mistakes(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        export.main(arguments)
    assert says in capsys.readouterr().err


def test_a_recording_of_the_same_frontend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fx.json"
    write(file, Recording("fx", "", []))
    with pytest.raises(SystemExit):
        export.main(["--frontend", "fx", "--beside", str(file)])
    assert "is of the frontend fx too; name one of the other" in capsys.readouterr().err


def test_a_frontend_that_is_not_here(capsys: pytest.CaptureFixture[str]) -> None:
    """The process has the other one already, or its package is not installed."""
    with pytest.raises(SystemExit, match=r"another process|pip install"):
        export.main(["--frontend", OTHER[chosen()], "--models", "gpt2"])
