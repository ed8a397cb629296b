"""The key `alternatives`, which the next version does not read: what it means, and its new form."""

from pathlib import Path

import pytest
from composites_testing.golden import read_cases
from typer.testing import CliRunner

from composites.errors import RegistryError
from composites.registry.catalog import load_catalog
from composites.registry.formatting import formatted
from composites.registry.reading import read_document
from composites.registry.validation import parse_registry
from lowering.cli.app import app

GOLDEN = Path(__file__).parent / "golden"
OLD, NEW = read_cases(GOLDEN / "formatted.txt")["the key alternatives"].values()


BOTH = OLD.replace("  f:", "    kernels:\n      cpu: [target: acme_gelu]\n  f:")
BOTH += "kernels:\n  ptxla.gelu:\n    cpu: [target: acme_gelu]\n"


def test_both_keys_mean_the_same() -> None:
    old, new = parse_registry(OLD, "acme.yaml"), parse_registry(NEW, "acme.yaml")
    assert old == new
    assert [a.location.line for e in old.composites for a in e.alternatives] == [7, 8, 9]
    assert [problem.line for problem in old.outdated] == [10, 6, 9]
    assert not new.outdated
    assert formatted(OLD, "acme.yaml") == NEW
    assert formatted(NEW, "acme.yaml") == NEW


def test_a_mapping_with_both_keys() -> None:
    """The mapping is read, rows of the old key first; the author decides which lines it has."""
    registry = parse_registry(BOTH, "acme.yaml")
    entry = registry.composites[0]
    assert [(kernel.name, kernel.location.line) for kernel in entry.kernels] == [
        ("a", 7), ("b", 8), ("acme_gelu", 10),
    ]  # fmt: skip
    assert [(kernel.name, kernel.location.line) for kernel in registry.kernels] == [
        ("acme", 14), ("acme_gelu", 17),
    ]  # fmt: skip
    message = r"acme\.yaml:\d+: write the rows of `alternatives` under `kernels`"
    with pytest.raises(RegistryError, match=message):
        formatted(BOTH, "acme.yaml")
    twice = BOTH.replace("      cpu:", "      a: {decomposition: acme_ops:gelu}\n      cpu:", 1)
    with pytest.raises(RegistryError, match=message):
        parse_registry(twice, "acme.yaml")


def test_the_old_key_of_a_file_that_another_names(module_folder: Path) -> None:
    (module_folder / "acme_kernels").mkdir()
    (module_folder / "acme_kernels" / "__init__.py").touch()
    other = module_folder / "acme_kernels" / "more.yaml"
    other.write_text(OLD[: OLD.index("  e:")].rstrip() + " {}\n" + OLD[OLD.index("\nalt") + 1 :])
    text = "schema: 2\nnamespace: acme\ncomposites: {}\nkernels: acme_kernels:more.yaml\n"
    (problem,) = read_document(text, "acme.yaml").outdated
    assert (problem.file, problem.line) == (str(other), 4)


def test_a_warning_names_the_line_and_the_command(tmp_path: Path) -> None:
    path = tmp_path / "acme.yaml"
    path.write_text(OLD)
    words = "`alternatives` is now `kernels`, and is not read by the next version; run: composites"
    assert f"{path}:6: e: {words} format {path}" in load_catalog([str(path)]).warnings()
    runner = CliRunner(env={"XLA_COMPOSITE_REGISTRY": str(path), "COLUMNS": "300"})
    assert words in runner.invoke(app, ["list", "--kernels"]).stderr
    assert runner.invoke(app, ["format", str(path)]).exit_code == 0
    assert path.read_text() == NEW
