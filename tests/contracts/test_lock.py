"""Lock files: what is written is read again, and a damaged file is one clear error."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from composites_testing.json_schema import accepts

from composites.contracts import model
from composites.contracts.lock import lock_schema, lock_text, parse_lock, read_lock, write_lock
from composites.errors import LockError

ROOT = Path(__file__).parents[2]
LOCK = model.Lock(
    "acme",
    {"torch": "2.9.0"},
    (
        model.Contract(
            entry="acme.Größe",
            composite="acme.size",
            version=3,
            decomposition="native",
            operands=(model.Operand("x"), model.Operand("y", optional=True)),
            attributes=(
                model.AttributeSpec("limit", "f32", value=float("inf")),
                model.AttributeSpec("count", "f32", value=1.0),
                model.AttributeSpec("exact", "bool", value=True),
                model.AttributeSpec("tile", "i64[]", value=(8, 128)),
            ),
            results=(),
            when=model.Conditions({"mode": ("a", 1, 1.0, True)}, ("f32",), (2,), ("x.dim() == 2",)),
            calls=(model.Call(("tensor<f32>",), "{}", ("tensor<f32>",), "sha256:0"),),
        ),
        model.Contract("acme.b", "acme.b", 0, "native", (), no_call="no example"),
    ),
    (model.Retired("acme.size", "acme.size", 1),),
)
TEXT = lock_text(LOCK)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "registry.lock"
    write_lock(LOCK, path)
    loaded = read_lock(path)
    assert loaded == LOCK
    values = [type(a.value) for a in loaded.contracts[0].attributes]
    assert values == [float, float, bool, tuple]
    assert lock_text(loaded) == TEXT
    assert [file.name for file in tmp_path.iterdir()] == ["registry.lock"]


DAMAGED: tuple[tuple[str | bytes, str], ...] = (
    ("", "the file: Invalid JSON"),
    (TEXT[:-40], "the file: Invalid JSON"),
    ('{"format": 1}', "namespace: Field required"),
    (TEXT.replace('"name"', '"nam"', 1), "contracts.0.operands.0.nam"),
    (TEXT.replace('"version": 3', '"version": "3"'), "contracts.0.version"),
    (TEXT.encode()[:-40] + b"\xff\xfe", "the file: Invalid JSON"),
    ('{"format": ' + "[" * 100_000, "the file: Invalid JSON"),
)


def test_damaged() -> None:
    command = "; restore it, or remove it and run `composites lock FILE -o a.lock`"
    for text, problem in DAMAGED:
        with pytest.raises(LockError) as caught:
            parse_lock(text, "a.lock")
        message = str(caught.value)
        assert message.startswith("a.lock: is not a lock, or is damaged: ")
        assert problem in message
        assert message.endswith(command)
        assert "\n" not in message


@pytest.mark.parametrize("text", ["# A page\n", "[]", '{"name": "a"}', b"\xff\xfe", "[" * 100_000])
def test_nobody_is_told_to_remove_another_file(text: str | bytes) -> None:
    with pytest.raises(LockError, match=r"^README.md: is not a lock; `composites lock` makes one$"):
        parse_lock(text, "README.md")


def test_a_contract_that_is_there_twice() -> None:
    doubled = replace(LOCK, contracts=LOCK.contracts + LOCK.contracts[:1])
    with pytest.raises(LockError, match=r"has acme\.size version 3 of entry acme\.Größe twice"):
        parse_lock(lock_text(doubled), "a.lock")


def test_a_newer_format() -> None:
    with pytest.raises(LockError, match=r"a\.lock: has format 2, but .* reads format 1; install"):
        parse_lock(TEXT.replace('"format": 1', '"format": 2', 1), "a.lock")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(LockError, match=r"no\.lock: cannot be read: No such file"):
        read_lock(tmp_path / "no.lock")
    with pytest.raises(LockError, match="cannot be read"):
        read_lock(tmp_path)


def test_the_schema_describes_the_file() -> None:
    schema = lock_schema()
    for text in (TEXT, (ROOT / "registry.lock").read_text(encoding="utf-8")):
        assert accepts(schema, json.loads(text), closed=True)
    for old, new in (('"name": "x"', '"nam": "x"'), ('"ranks": [2]', '"ranks": ["2"]')):
        assert not accepts(schema, json.loads(TEXT.replace(old, new)), closed=True)
