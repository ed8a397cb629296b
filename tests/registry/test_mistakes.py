"""Messages for wrong registry files: files, and the exact messages for each.

`golden/mistakes.txt` has them. COMPOSITES_WRITE_GOLDEN=1 writes the messages again:

    COMPOSITES_WRITE_GOLDEN=1 pytest tests/registry/test_mistakes.py
"""

from pathlib import Path

import pytest
from composites_testing.golden import Parts, check_cases

from composites.errors import RegistryError
from composites.registry.catalog import builtin_registry, with_additions
from composites.registry.validation import load_registry, parse_registry

GOLDEN = Path(__file__).parent / "golden" / "mistakes.txt"


def problems(text: str) -> str:
    """Problems of a file, and of the kernels that it adds to built-in entries."""
    try:
        registry = parse_registry(text, "acme.yaml")
    except RegistryError as error:
        listed = list(error.problems)
    else:
        listed = with_additions((registry, builtin_registry()))[1]["acme.yaml"]
    return "\n".join(map(str, listed)) or "no problem"


def test_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def messages(parts: Parts) -> str:
        """The messages for acme.yaml, with files beside it that have the names of parts."""
        for name, text in parts.items():
            Path(name or "acme.yaml").write_text(text)
        return problems(parts[""])

    check_cases(GOLDEN, messages)


def test_an_operator_without_default_overload() -> None:
    for op, absent in (("std_mean.nope", "overload nope"), ("add", "default overload")):
        text = f"schema: 1\nnamespace: acme\ncomposites: {{e: {{op: aten::{op}}}}}\n"
        start = f"acme.yaml:3: e: operator aten::{op.partition('.')[0]} has no {absent} (known: "
        assert problems(text).startswith(start)


@pytest.mark.parametrize("file", ["acme_here.py", "acme_here/__init__.py", "acme_here/a.yaml"])
def test_modules_of_the_working_directory(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text("")
    text = "namespace: acme\ncomposites:\n  e: {op: aten::relu, decomposition: acme_here:e}\n"
    hint = "there is no module acme_here; set PYTHONPATH=. to import it from this folder"
    assert (hint in problems(text)) == file.endswith(".py")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=r"nowhere\.yaml:1: cannot be read: No such file"):
        load_registry("nowhere.yaml")
    with pytest.raises(RegistryError, match="cannot be read: embedded null"):
        load_registry("a\0.yaml")
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RegistryError, match="is not UTF-8 text"):
        load_registry(path)
