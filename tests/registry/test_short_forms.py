"""Short forms of registry files mean what the long ones mean, and so does a formatted file."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from composites.cli.app import app
from composites.errors import RegistryError
from composites.registry.formatting import formatted
from composites.registry.model import Registry
from composites.registry.validation import parse_registry

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
    assert [read(entries, schema).composites[0].backward for schema in (1, 2)] == [
        None,
        "silu_backward",
    ]


E = "  e:\n    op: aten::_softmax\n    attributes:"
PAIR = "  e: {op: aten::gelu, backward: %s}\n  e_backward: {op: aten::gelu_backward}\n"
WRONG = {
    "  e: relu\n": ["4: e: 'relu' is not an operator such as aten::gelu or aten::mean.dim"],
    "  e: aten::silux\n": [
        "4: e: PyTorch has no operator aten::silux; did you mean 'aten::silu'?"
    ],
    "  e:\n": [
        "4: e: composites.e must be an operator or a mapping of keys to values, not None"
    ],
    f"{E} dim\n": [
        "6: e: attributes: must be a list such as [dim, keepdim], a mapping, or forward, not 'dim'"
    ],
    f"{E}\n      - 3\n      - dim: {{typ: i64}}\n": [
        "7: e: attributes: 3 is not an attribute; write the name of an argument such as dim, or a"
        " name with more, such as dim: {from: dim, normalize: dim}",
        "8: e: unknown key 'typ'; did you mean 'type'? (the keys are from, value, type, normalize,"
        " optional)",
    ],
    f"{E}\n      - dim\n      - dimm\n": [
        "8: e: attribute dimm: aten::_softmax has no argument 'dimm'; did you mean 'dim'? (it has"
        " dim, half_to_float)"
    ],
    f"{E}\n      - half_to_float:\n          type: i64\n": [
        "8: e: attribute half_to_float: argument half_to_float (bool) cannot be of type i64; it can"
        " be bool"
    ],
    f"{E}\n      - dim\n      - dim: {{type: i64}}\n": [
        "8: e: attributes: 'dim' appears twice, first on line 7"
    ],
    f"{E} forward\n": [
        "6: e: attributes: forward: no entry has this one as its backward; list the attributes"
    ],
    "  e: {op: aten::gelu, attributes: [approximate]}\n"
    "  f: {op: aten::gelu, backward: e_backward}\n"
    "  e_backward: {op: aten::gelu_backward, attributes: forward}\n": [
        "6: e_backward: attributes: forward: its forwards 'e' and 'f' have different attributes;"
        " list the attributes"
    ],
    "  e: {op: aten::gelu, attributes: forward, backward: f}\n"
    "  f: {op: aten::gelu_backward, attributes: forward, backward: e}\n": [
        "4: e: attributes: forward: its forward 'f' has `attributes: forward` too; list the"
        " attributes",
        "5: f: attributes: forward: its forward 'e' has `attributes: forward` too; list the"
        " attributes",
    ],
    "  e: {op: aten::_softmax, attributes: [half_to_float]}\n"
    "  e_backward: {op: aten::_softmax_backward_data, attributes: forward}\n": [
        "5: e_backward: attribute half_to_float: aten::_softmax_backward_data has no argument"
        " 'half_to_float' (it has dim, input_dtype)"
    ],
    PAIR % "none": [
        "4: e: backward: there is no entry 'none'; write `backward: null` for an entry without"
        " backward"
    ],
    "  f: {op: aten::silu, backward: e_backward}\n  e: aten::gelu\n"
    "  e_backward: aten::gelu_backward\n": [
        "5: e: backward: 'e_backward' is already the backward of 'f', which has another operator;"
        " write `backward: null` in 'e' if it has no backward"
    ],
}  # fmt: skip


@pytest.mark.parametrize("entries", WRONG)
def test_mistakes_in_short_forms(entries: str) -> None:
    with pytest.raises(RegistryError) as raised:
        read(entries)
    assert [str(problem) for problem in raised.value.problems] == [
        f"acme.yaml:{message}" for message in WRONG[entries]
    ]


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
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "long.yaml", "short.yaml", "wrong.yaml"
    ]  # fmt: skip
