"""`python -m benchmarks.export --frontend`: training steps on both frontends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import export
from benchmarks.frontends import Recording, read, write
from lowering.frontends.chosen import chosen

OTHER = {"xla": "fx", "fx": "xla"}


@pytest.mark.slow
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


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = tmp_path / "fx.json"
    write(same, Recording("fx", "", []))
    for arguments, says in (
        (["--models", "gpt2"], "--models, --record and --beside go with --frontend"),
        (["--frontend", "fx", "--markdown", "page.md"], "--markdown needs --beside FILE"),
        (["--frontend", "fx", "--models", "gtp2"], "no model gtp2; the models are: gpt2, "),
        (["--frontend", "fx", "--beside", "nothing.json"], "nothing.json is not what `--record`"),
        (["--frontend", "fx", "--beside", str(same)], "is of the frontend fx too; name one of the"),
    ):
        with pytest.raises(SystemExit):
            export.main(arguments)
        assert says in capsys.readouterr().err
