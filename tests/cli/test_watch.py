"""`composites watch`: registries against the sources of compilers."""

import json
from pathlib import Path

from composites_testing.command_line import invoke

SOURCES = {
    "lib/legalize.cc": """
      if (op.getName() != "acme.norm") return failure();
      auto epsilon = attributes.get("epsilon"); map["axis"];
      for (auto key : {"lr", "beta"}) read(key, "acme.step");
    """,
    "test/norm.mlir": 'composite "acme.norm" {composite_attributes = {epsilon = 1.0, k = 2}}',
    "python/emit.py": """attrs = {"approximate": mode}; builder(name="acme.gelu", attr=attrs)""",
    "python/notes.txt": '"acme.unread"',
}
REGISTRY = """schema: 2
namespace: acme
composites:
  norm: {op: aten::native_layer_norm, attributes: [epsilon: {from: eps}, axis: {value: 1}]}
  gelu: {op: aten::gelu, attributes: [approximate, tile: {value: 8}]}
  silu: aten::silu
"""


def test_differences(tmp_path: Path) -> None:
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    registry, umbra = tmp_path / "acme.yaml", tmp_path / "others.yaml"
    registry.write_text(REGISTRY)

    def watched(*arguments: str) -> tuple[int, str]:
        result = invoke("watch", *arguments, "--sources", tmp_path)
        return result.exit_code, result.stdout

    code, text = watched(str(registry), "--json")
    rows = [tuple(row.values()) for row in json.loads(text)["differences"]]
    assert code == 1
    assert rows == [
        ("acme.norm", "beta", True, f"{tmp_path}/lib/legalize.cc:4"),
        ("acme.norm", "k", True, f"{tmp_path}/test/norm.mlir:1"),
        ("acme.norm", "lr", True, f"{tmp_path}/lib/legalize.cc:4"),
        ("acme.step", None, True, f"{tmp_path}/lib/legalize.cc:4"),
        ("acme.gelu", "tile", False, f"{registry}:5"),
        ("acme.silu", None, False, f"{registry}:6"),
    ]
    code, table = watched(str(registry))
    assert code == 1
    assert all(f" {name} " in table for name, *_ in rows)
    umbra.write_text("schema: 2\nnamespace: umbra\ncomposites: {}\n")
    code, table = watched(str(umbra))
    assert (code, "no differences" in table) == (0, True)
    empty, wrong = tmp_path / "empty", tmp_path / "wrong.yaml"
    empty.mkdir()
    for file, folder, message in (
        (registry, "nowhere", "error: nowhere is not a folder\n"),
        (registry, registry, f"error: {registry} is not a folder\n"),
        (registry, empty, f"error: {empty} has no source files (.c, .cc, "),
        (wrong, tmp_path, f"{wrong}:1: cannot be read: No such file or directory\n"),
    ):
        result = invoke("watch", file, "--sources", folder)
        assert result.exit_code == 2
        assert result.stderr.startswith(message)
