"""The key `alternatives`, which the next version does not read: what it means, and its new form."""

from pathlib import Path

from typer.testing import CliRunner

from composites.registry.catalog import load_catalog
from composites.registry.validation import parse_registry
from lowering.cli.app import app

OLD = """\
schema: 2
namespace: acme
composites:
  e:
    op: aten::gelu
    alternatives:   # of e
      a: {goals: fast, decomposition: acme_ops:gelu}   # one
      b: {decomposition: acme_ops:gelu}
    kernels:
      cpu: [target: acme_gelu]
  f: {op: aten::silu, alternatives: {a: {decomposition: acme_ops:silu}}}
kernels:
  ptxla.gelu@1:
    cpu: [target: acme_gelu]
alternatives:
  ptxla.gelu:
    acme: {goals: small, decomposition: acme_ops:gelu}
"""
NEW = """\
schema: 2
namespace: acme
composites:
  e:
    op: aten::gelu
    kernels:
      a: {goals: fast, decomposition: acme_ops:gelu}   # one
      b: {decomposition: acme_ops:gelu}
      cpu: [target: acme_gelu]
  f: {op: aten::silu, kernels: {a: {decomposition: acme_ops:silu}}}
kernels:
  ptxla.gelu: {acme: {goals: small, decomposition: acme_ops:gelu}}
  ptxla.gelu@1:
    cpu: [target: acme_gelu]
"""


def test_both_keys_mean_the_same() -> None:
    old, new = parse_registry(OLD, "acme.yaml"), parse_registry(NEW, "acme.yaml")
    assert old == new
    assert [a.location.line for e in old.composites for a in e.alternatives][:2] == [7, 8]
    assert [problem.line for problem in old.outdated] == [15, 6, 11]
    assert not new.outdated


def test_a_warning_names_the_line_and_the_command(tmp_path: Path) -> None:
    path = tmp_path / "acme.yaml"
    path.write_text(OLD)
    said = "`alternatives` is now `kernels`, and is not read by the next version; run: composites"
    assert f"{path}:6: e: {said} format {path}" in load_catalog([str(path)]).warnings()
    runner = CliRunner(env={"XLA_COMPOSITE_REGISTRY": str(path), "COLUMNS": "300"})
    assert said in runner.invoke(app, ["list", "--kernels"]).stderr
    assert runner.invoke(app, ["format", str(path)]).exit_code == 0
    assert path.read_text() == NEW
