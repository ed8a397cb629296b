"""Manifests that are changed at random: loading says what is wrong, or gives the program."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import composites
from composites import Program
from composites.errors import ProgramError

TEXT = st.text(st.characters(exclude_categories=()))  # with surrogates, which JSON can escape
SIMPLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_subnormal=False)  # which XLA:CPU flushes to zero in its process
    | TEXT
    # What a manifest has elsewhere, so that some changes come close.
    | st.sampled_from(
        ["f32", "f64", "arg:0", "out:0", "param:linear.bias", "ptxla.gelu", "\ud800", 0, 1, 2]
    )
)
KeyPath = tuple[Any, ...]
TYPES = ["tensor<4x4xf32>", "tensor<4xf32>", "tensor<f32>", "tensor<2x4xf32>"]
"""Types of the inputs of the program below: a weight, a bias, a count and an argument."""


def key_paths(document: Any, at: KeyPath = ()) -> Iterator[KeyPath]:
    """The keys and indices that lead to each value of a document."""
    yield at
    items: Any = ()
    if isinstance(document, dict):
        items = document.items()
    elif isinstance(document, list):
        items = enumerate(document)
    for key, value in items:
        yield from key_paths(value, (*at, key))


def changed(document: Any, path: KeyPath, remove: bool, value: Any) -> Any:
    """A copy in which one value is replaced or taken away."""
    if not path:
        return value
    result = copy.deepcopy(document)
    parent = result
    for key in path[:-1]:
        parent = parent[key]
    if remove:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose manifest has everything: a composite, and an output that updates an input."""

    class Counts(torch.nn.Module):
        count: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return torch.nn.functional.gelu(self.linear(x))

    folder = tmp_path_factory.mktemp("fuzzed") / "program"
    composites.export(Counts(), (torch.ones(2, 4),)).save(folder)
    (folder / "original.json").write_bytes((folder / "manifest.json").read_bytes())
    return folder


def load(folder: Path, manifest: bytes) -> None:
    """Only ProgramError comes out, with a message that can be printed; or the program."""
    (folder / "manifest.json").write_bytes(manifest)
    try:
        program = Program.load(folder)
    except ProgramError as error:
        message = str(error)
    else:
        assert [value.type for value in program.inputs] == TYPES
        return
    assert message.startswith(str(folder))
    message.encode()


def structured(folder: Path, data: st.DataObject) -> bytes:
    document = json.loads((folder / "original.json").read_text())
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(key_paths(document))))
        value = data.draw(SIMPLE | st.lists(SIMPLE) | st.dictionaries(TEXT, SIMPLE))
        document = changed(document, path, data.draw(st.booleans()), value)
    return json.dumps(document, ensure_ascii=data.draw(st.booleans())).encode(
        errors="surrogatepass"
    )


def mutated(folder: Path, data: st.DataObject) -> bytes:
    """A part of the file replaced by other bytes, or by another part of it."""
    content = (folder / "original.json").read_bytes()
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(content))] * 2)))
    other = data.draw(st.integers(0, len(content)))
    inserted = data.draw(st.binary(max_size=8) | st.just(content[other : other + 40]))
    return content[:start] + inserted + content[end:]


CHANGES = {"other values": structured, "other bytes": mutated}
settled = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("count", [15, pytest.param(5000, marks=pytest.mark.exhaustive)])
def test_a_manifest_with(change: str, count: int, folder: Path) -> None:
    @settings(settled, max_examples=count)
    @given(data=st.data())
    def changed_manifests(data: st.DataObject) -> None:
        load(folder, CHANGES[change](folder, data))

    changed_manifests()
