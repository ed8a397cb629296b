"""pytorch/xla's own tests: what `benchmarks.upstream` says of tests with every outcome."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from composites_testing.processes import Finished, run

REPOSITORY = Path(__file__).parents[2]
TESTS = """
import os, time, unittest
import helper
import beside

ON = "XLA_COMPOSITE_OP" in os.environ

class Test(unittest.TestCase):
  def test_a_good(self):
    self.assertEqual(helper.ONE, 1)

  def test_b_bad(self):
    self.fail()

  @unittest.expectedFailure
  def test_b_known(self):
    self.fail()

  @unittest.skip("of no use")
  def test_c_skipped(self):
    pass
"""
DIFFERENT = """
  def test_d_worse(self):
    self.assertFalse(ON)

  def test_e_gone(self):
    for number in range(3):
      with self.subTest(number):
        self.assertEqual(number % 2, 0)
    if ON:
      os.abort()

  def test_f_hangs(self):
    if ON:
      time.sleep(100)

  def test_g_last(self):
    pass
"""
BROKEN = "import no_such_module_of_ours\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder like a clone of pytorch/xla."""
    tests = tmp_path / "xla" / "test"
    (tests / "scan").mkdir(parents=True)
    (tests / "__init__.py").touch()
    (tests / "helper.py").write_text("ONE = 1\n")
    for folder in (tests, tests / "scan"):
        (folder / "beside.py").touch()
    (tests / "test_same.py").write_text(TESTS)
    (tests / "scan" / "test_other.py").write_text(TESTS + DIFFERENT)
    (tests / "test_broken.py").write_text(BROKEN)
    # What must not hide the installed torch_xla.
    (tmp_path / "xla" / "torch_xla").mkdir()
    (tmp_path / "xla" / "torch_xla" / "__init__.py").write_text("raise ImportError")
    return tmp_path / "xla"


def compare(checkout: Path, files: str, *more: str) -> Finished:
    command = (sys.executable, "-m", "benchmarks.upstream", str(checkout), "--files", files)
    return run(*command, *more, cwd=REPOSITORY, COLUMNS="200")


def test_no_differences(checkout: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    done = compare(checkout, "test_same.py,test_broken.py", "--markdown", str(page))
    assert done.code == 0, done.stdout + done.stderr
    lines = [line.strip("| ").split(" | ") for line in page.read_text().splitlines()]
    assert ["file", "passed", "failed", "error", "skipped", "xfailed", "differences"] in lines
    assert ["test_same.py", "1", "1", "0", "1", "1", "0"] in lines
    assert ["test_broken.py", "0", "0", "1", "0", "0", "0"] in lines
    assert page.read_text().endswith("## Differences\n\nNone.\n")


@pytest.mark.exhaustive
def test_differences_are_named(checkout: Path, tmp_path: Path) -> None:
    logs = ("--logs", str(tmp_path / "logs"))
    done = compare(checkout, "scan/test_other.py", "--seconds", "8", *logs)
    assert done.code == 1, done.stderr
    told = [line.split("::")[-1] for line in done.stdout.splitlines() if "::" in line]
    assert told == [
        "test_d_worse`: passed -> failed",
        "test_e_gone`: failed -> crashed",
        "test_f_hangs`: passed -> timed out",
    ]
    written = (tmp_path / "logs" / "scan.test_other.py.composites.jsonl").read_text()
    assert '"outcome": "passed"' in written.splitlines()[-2]  # what comes after them has run
    assert "assertFalse" in written


def test_a_file_that_is_not_there(checkout: Path) -> None:
    done = compare(checkout, "test_nothing.py")
    assert done.code == 1
    assert "has no file test/test_nothing.py; give a clone of" in done.stderr
