"""Short forms of registry files mean what the long ones mean, and so does a formatted file."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from composites.registry.formatting import formatted
from composites.registry.model import Registry
from composites.registry.validation import parse_registry
from lowering.cli.app import app

ROOT = Path(__file__).parents[2]


def file(entries: str, schema: int = 2) -> str:
    """A file whose entries begin on line 4."""
    return f"schema: {schema}\nnamespace: acme\ncomposites:\n{entries}"


def read(entries: str, schema: int = 2) -> Registry:
    return parse_registry(file(entries, schema), "acme.yaml")


SAME = {
    "an operator alone": ("  silu: aten::silu\n", "  silu: {op: aten::silu}\n"),
    "names of attributes": (
        "  mean: {op: aten::leaky_relu, attributes: [negative_slope]}\n",
        "  mean: {op: aten::leaky_relu, attributes: {negative_slope: negative_slope}}\n",
    ),
    "names and more, in order": (
        "  e:\n    op: aten::mean.dim\n"
        "    attributes: [keepdim, dims: {from: dim, normalize: dim, optional: true}]\n",
        "  e:\n    op: aten::mean.dim\n    attributes:\n      keepdim: {from: keepdim}\n"
        "      dims: {from: dim, normalize: dim, optional: true}\n",
    ),
    "the argument of the same name": (
        "  e: {op: aten::_softmax, attributes: {dim: {normalize: dim, type: i32}}}\n",
        "  e: {op: aten::_softmax, attributes: {dim: {from: dim, normalize: dim, type: i32}}}\n",
    ),
    "several in one mapping of a list": (
        "  e: {op: aten::elu, attributes: [{a: alpha, b: {value: 1}}, scale]}\n",
        "  e: {op: aten::elu, attributes: {a: alpha, b: {value: 1}, scale: scale}}\n",
    ),
    "the backward of its name, with its attributes": (
        "  gelu: {op: aten::gelu, attributes: [approximate]}\n"
        "  gelu_backward: {op: aten::gelu_backward, attributes: forward}\n",
        "  gelu: {op: aten::gelu, attributes: [approximate], backward: gelu_backward}\n"
        "  gelu_backward: {op: aten::gelu_backward, attributes: [approximate]}\n",
    ),
    "two forwards with the same attributes": (
        "  gelu: {op: aten::gelu, attributes: [approximate]}\n"
        "  other: {op: aten::gelu, attributes: [approximate], backward: gelu_backward}\n"
        "  gelu_backward: {op: aten::gelu_backward, attributes: forward}\n",
        "  gelu: {op: aten::gelu, attributes: [approximate], backward: gelu_backward}\n"
        "  other: {op: aten::gelu, attributes: [approximate], backward: gelu_backward}\n"
        "  gelu_backward: {op: aten::gelu_backward, attributes: [approximate]}\n",
    ),
    "versions": (
        "  gelu: {op: aten::gelu, version: 2, attributes: [approximate]}\n"
        "  gelu@1: aten::gelu\n"
        "  gelu_backward: {op: aten::gelu_backward, version: 2, attributes: forward}\n"
        "  gelu_backward@1: {op: aten::gelu_backward, attributes: forward}\n",
        "  gelu: {op: aten::gelu, version: 2, attributes: [approximate], backward: gelu_backward}\n"
        "  gelu@1: {op: aten::gelu, backward: gelu_backward}\n"
        "  gelu_backward: {op: aten::gelu_backward, version: 2, attributes: [approximate]}\n"
        "  gelu_backward@1: {op: aten::gelu_backward}\n",
    ),
    "no backward": (
        "  silu: {op: aten::silu, backward: null}\n  silu_backward: aten::silu_backward\n",
        "  silu: {op: aten::silu, backward: null}\n  silu_backward: {op: aten::silu_backward}\n",
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_short_and_long_forms(case: str) -> None:
    short, long = SAME[case]
    assert read(short).composites == read(long).composites
    assert read(long).composites == read(long, schema=1).composites


def test_a_file_of_schema_1_has_the_backwards_that_it_names() -> None:
    entries = "  silu: aten::silu\n  silu_backward: aten::silu_backward\n"
    backwards = [read(entries, schema).composites[0].backward for schema in (1, 2)]
    assert backwards == [None, "silu_backward"]


BEFORE = """\
# Head
schema: 1   # of this file
namespace: acme
composites:
  # Activations.
  gelu:   # the exact one
    op: aten::gelu
    version: 1
    attributes: {approximate: approximate}
    decomposition: native
    backward: gelu_backward
    samples: acme_ops:gelu
  gelu_backward:
    op: aten::gelu_backward
    version: 1   # of 2024
    attributes:
      approximate: approximate

  # With a line above a default.
  silu:
    op: aten::silu
    # As in 2024.
    version: 1
  silu_backward:   # of silu
    op: aten::silu_backward
    decomposition: native
  elu: {op: aten::elu, version: 1, attributes: {alpha: alpha, scale: scale}, when: {scale: 1.0}}
  topk:
    op: aten::topk
    attributes:
      # The first.
      k: k
      dim: {from: dim, normalize: dim}   # never negative
    saves:
      - self
    when:
      dtypes: [f32]
      where:
        - self.dim() > 0
  std:
    op: aten::std.correction
    when:
      where:
        - self.shape[-1] > 1
        - self.dim() > 0
    attributes:
      dim: {from: dim, normalize: dim, optional: true}
      correction: {from: correction, optional: true}
      keepdim: keepdim
    backward: derive
# End
"""
AFTER = """\
# Head
schema: 2   # of this file
namespace: acme
composites:
  # Activations.
  gelu:   # the exact one
    op: aten::gelu
    attributes: [approximate]
    samples: acme_ops:gelu
  gelu_backward:
    op: aten::gelu_backward
    version: 1   # of 2024
    attributes: forward

  # With a line above a default.
  silu:
    op: aten::silu
    # As in 2024.
    version: 1
    backward: null
  silu_backward: aten::silu_backward   # of silu
  elu: {op: aten::elu, attributes: [alpha, scale], when: {scale: 1.0}}
  topk:
    op: aten::topk
    attributes:
      # The first.
      - k
      - dim: {normalize: dim}   # never negative
    saves: [self]
    when: {dtypes: [f32], where: [self.dim() > 0]}
  std:
    op: aten::std.correction
    when:
      where:
        - self.shape[-1] > 1
        - self.dim() > 0
    attributes: [dim: {normalize: dim, optional: true}, correction: {optional: true}, keepdim]
    backward: derive
# End
"""


def test_formatted_files_mean_the_same() -> None:
    for newline in ("\n", "\r\n"):
        before, after = (text.replace("\n", newline) for text in (BEFORE, AFTER))
        assert formatted(before, "acme.yaml") == after
        assert formatted(after, "acme.yaml") == after
    for case, (short, long) in SAME.items():
        for text in (file(short), file(long, 1)):
            again = formatted(text, "acme.yaml")
            assert formatted(again, "acme.yaml") == again, case


def test_files_of_the_project_are_formatted() -> None:
    for path in (ROOT / "registry.yaml", *(ROOT / "examples").glob("*/src/*/registry.yaml")):
        text = path.read_text()
        assert formatted(text, path.name) == text, f"run: composites format {path}"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["format", *map(str, arguments)])


def test_the_command(tmp_path: Path) -> None:
    long, short, wrong = (tmp_path / name for name in ("long.yaml", "short.yaml", "wrong.yaml"))
    long.write_text(BEFORE)
    short.write_text(AFTER)
    wrong.write_text(file("  e: relu\n"))
    checked = run("--check", long, short)
    assert (checked.exit_code, checked.stderr) == (
        1,
        f"error: not in short form: {long}; run: composites format {long}\n",
    )
    refused = run(long, wrong)
    assert (refused.exit_code, refused.stderr.startswith(f"{wrong}:4: e: 'relu'")) == (1, True)
    assert long.read_text() == BEFORE
    assert run(long, short).stdout == "1 file rewritten, 1 file in short form already\n"
    assert (long.read_text(), short.read_text()) == (AFTER, AFTER)
    assert run("--check", long, short).exit_code == 0
    assert len(list(tmp_path.iterdir())) == 3
