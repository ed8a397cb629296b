"""Alternatives in registry files: what is read, what is wrong, and which ones a text chooses."""

import sys
from pathlib import Path

import pytest
from composites_testing.golden import Parts, check_cases
from composites_testing.packages import install, returning

from composites.decompositions import choose
from composites.errors import DecompositionError, RegistryError
from composites.registry.alternatives import check_functions
from composites.registry.catalog import Catalog, load_catalog
from composites.registry.model import CONSUMERS, PORTABLE, Composite, for_target
from composites.registry.packages import builtin_registry_path
from composites.registry.validation import load_registry, parse_registry
from lowering.stablehlo import TARGETS

HEAD = "schema: 1\nnamespace: acme\ncomposites:\n"


def entry(alternatives: str, more: str = "backward: derive") -> str:
    """A file whose one entry, `e`, has alternatives on line 7."""
    return f"{HEAD}  e:\n    op: aten::gelu\n    {more}\n    kernels: {{{alternatives}}}\n"


F = "decomposition: 'a:f'"


def test_what_is_read() -> None:
    written = entry(
        f"a: {{goals: fast, {F}, when: {{approximate: none, rank: 2, where: ['self.dim() > 1']}},"
        " backward: 'jax:a:b', gradients: [self], tolerance: {f32: 0.001}, samples: 'a:s'}, b:"
        f" {{{F}, backward: derive}}"
    )
    written += f"kernels:\n  ptxla.gelu: {{c: {{{F}}}}}\n"
    (e,) = parse_registry(written, "acme.yaml").composites
    assert [a.name for a in e.alternatives] == ["a", "b"]
    assert e.alternatives[0].tolerance == (("f32", 0.001),)
    assert (e.alternatives[1].derives, e.alternatives[1].backward) == (True, None)


def test_functions_are_imported_only_when_they_are_chosen() -> None:
    for name in ("composites.alternatives.attention", "no_such_module"):
        sys.modules.pop(name, None)
    load_registry(builtin_registry_path())
    assert "composites.alternatives.attention" not in sys.modules
    registry = parse_registry(entry("a: {decomposition: 'no_such_module:f'}"), "acme.yaml")
    (e,) = registry.composites
    with pytest.raises(DecompositionError, match=r"acme\.e: a: .*no_such_module"):
        check_functions(e.alternatives[0], e)


FUNCTIONS = """
def short(self): ...
def fits(self, *, approximate="none"): ...
def backward(grad_output, self, approximate, output_mask): ...
def unknown(grad_output, slef): ...
def many(*values): ...
"""


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("decomposition: 'alt_f:fits', backward: 'alt_f:backward', gradients: [self]", ""),
        ("decomposition: 'alt_f:short'", "does not take the arguments of aten::gelu"),
        ("backward: 'alt_f:unknown', gradients: [self]", "no value of that name; did you mean"),
        ("backward: 'alt_f:many', gradients: [self]", "a backward takes its values by name"),
        ("backward: 'alt_f:backward', gradients: [self]", r"takes self, which acme\.e does not"),
    ],
)
def test_functions_fit(keys: str, message: str, module_folder: Path) -> None:
    (module_folder / "alt_f.py").write_text(FUNCTIONS)
    more = "backward: derive" + ("\n    saves: [result]" if message.startswith("takes") else "")
    (e,) = parse_registry(entry(f"a: {{{keys}}}", more), "acme.yaml").composites
    if not message:
        check_functions(e.alternatives[0], e)
        return
    with pytest.raises(DecompositionError, match=message):
        check_functions(e.alternatives[0], e)


# ---- given to entries of other registries ----


def catalog(tmp_path: Path, text: str) -> Catalog:
    path = tmp_path / "acme.yaml"
    path.write_text(text)
    return load_catalog([str(path)])


def gelu_of(catalog: Catalog) -> Composite:
    return next(e for e in catalog if e.identity == "ptxla.gelu@1")


def test_a_vendor_adds_to_a_builtin_entry(tmp_path: Path) -> None:
    text = "schema: 1\nnamespace: acme\ncomposites: {}\nkernels:\n"
    text += f"  ptxla.gelu: {{a: {{goals: fast, {F}}}, b: {{{F}}}}}\n"
    loaded = catalog(tmp_path, text)
    assert [a.name for a in gelu_of(loaded).alternatives] == ["a", "b"]
    assert gelu_of(loaded).alternatives[0].location.file.endswith("acme.yaml")
    assert gelu_of(load_catalog([])).alternatives == ()


OWN = f"acme.e: {{b: {{goals: stock, {F}}}}}"


def test_a_file_names_entries_of_its_own() -> None:
    (e,) = parse_registry(f"{entry(f'a: {{{F}}}')}kernels: {{{OWN}}}\n", "acme.yaml").composites
    assert [(a.name, a.location.line) for a in e.alternatives] == [("a", 7), ("b", 8)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"schema: 2\nnamespace: acme\ncomposites: {{}}\nkernels: {{{OWN}}}\n", ""),
        (
            f"schema: 2\nnamespace: umbra\ncomposites: {{}}\nkernels: {{{OWN}}}\n",
            ":2: namespace: must",
        ),
        ("schema: 2\nnamespace: acme\ncomposites: {f: aten::silu}\n", "must hold only kernels"),
        ("schema: 2\n", "key 'namespace' is missing"),
        (None, "cannot be read"),
    ],
)
def test_kernels_in_a_file_of_their_own(
    text: str | None, message: str, module_folder: Path
) -> None:
    folder = module_folder / "acme_rows"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise AssertionError('imported')")
    if text is not None:
        (folder / "kernels.yaml").write_text(text)
    written = f"{HEAD}  e: {{op: aten::gelu}}\nkernels: acme_rows:kernels.yaml\n"
    if not message:
        (e,) = parse_registry(written, "acme.yaml").composites
        location = e.alternatives[0].location
        assert (location.file, location.line) == (str(folder / "kernels.yaml"), 4)
        return
    with pytest.raises(RegistryError, match=message) as raised:
        parse_registry(written, "acme.yaml")
    assert raised.value.problems[0].file == str(folder / "kernels.yaml")


def adding(folder: Path, namespace: str, entry: str, composites: str = "{}") -> Path:
    """A file that adds an alternative to an entry."""
    path = folder / f"{namespace}.yaml"
    head = f"schema: 1\nnamespace: {namespace}\ncomposites: {composites}\n"
    path.write_text(f"{head}kernels: {{{entry}: {{a: {{{F}}}}}}}\n")
    return path


def test_two_vendors_cannot_use_one_name(tmp_path: Path) -> None:
    files = [str(adding(tmp_path, name, "ptxla.gelu")) for name in ("acme", "umbra")]
    with pytest.raises(RegistryError, match=r"gelu already has a kernel 'a': .*acme\.yaml:4"):
        load_catalog(files)


# ---- which are chosen ----


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    text = f"{HEAD}  e: {{op: aten::relu6, kernels: {{a: {{goals: small, {F}}}}}}}\n"
    text += f"kernels:\n  ptxla.gelu: {{a: {{goals: fast, {F}}}, b: {{{F}}}}}\n"
    return catalog(tmp_path_factory.mktemp("two"), text)


CHOICES: dict[str, tuple[str | None, str | None]] = {
    "fast": ("fast", None),
    "small": (None, "small"),
    "a": ("a", "a"),
    "b": ("b", None),
    "stock": ("stock", "stock"),
    "": (None, None),
    "gelu=b": ("b", None),
    " gelu = b , small": ("b", "small"),
    "gelu=b,fast": ("b", None),
    "fast,gelu=stock": ("stock", None),
    "gelu=b,gelu=fast": ("fast", None),
    "all=a": ("a", "a"),
    "acme.*=small": (None, "small"),
    "small,a": ("a", "a"),
}
"""The alternatives that a text chooses for ptxla.gelu and for acme.e."""


def test_the_choice(two: Catalog) -> None:
    chosen = {text: dict(choose(text, two)) for text in CHOICES}
    choices = {t: (w.get("ptxla.gelu@1"), w.get("acme.e@1")) for t, w in chosen.items()}
    assert choices == CHOICES


def test_wrong_choices(two: Catalog) -> None:
    def message(parts: Parts) -> str:
        with pytest.raises(DecompositionError) as raised:
            choose(parts[""].strip(), two)
        return str(raised.value)

    check_cases(Path(__file__).parent / "golden" / "choices.txt", message)


def test_the_choice_is_text(two: Catalog) -> None:
    with pytest.raises(DecompositionError, match="is not text; write 'fast'"):
        choose(["fast"], two)  # type: ignore[arg-type]


def test_a_package_with_a_wrong_addition_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another package keeps the alternatives that it gives."""
    for name, entry in (("good", "ptxla.gelu"), ("wrong", "ptxla.gleu")):
        path = adding(tmp_path, name, f"{entry}@1: {{b: {{{F}}}}}, {entry}")
        install(tmp_path, f"{name}-ops", monkeypatch, **{f"{name}_ops": returning(path)})
    loaded = load_catalog([])
    assert [a.name for a in gelu_of(loaded).alternatives] == ["a", "b"]
    (left,) = loaded.left_out
    assert left.package == "wrong-ops"
    assert left.reason.count("there is no such entry") == 2


def test_the_goal_stock_is_taken_after_what_was_chosen() -> None:
    goals = f"a: {{goals: stock, {F}}}, b: {{goals: fast, {F}}}, c: {{goals: stock, {F}}}"
    (composite,) = parse_registry(entry(goals), "acme.yaml").composites
    for word, taken in {"stock": "ac", "fast": "bac", "small": "ac", "b": "bac"}.items():
        assert [alternative.name for alternative in composite.taken(word)] == list(taken)


def test_the_goal_shared_is_asked_before_stock() -> None:
    goals = f"a: {{goals: stock, {F}}}, b: {{goals: shared, {F}}}, c: {{goals: fast, {F}}}"
    (composite,) = parse_registry(entry(goals), "acme.yaml").composites
    assert [alternative.name for alternative in composite.taken("fast")] == ["c", "b", "a"]
    assert not composite.chosen("shared")
    assert [alternative.is_for_shared for alternative in composite.taken("b")] == [True, False]


def test_a_package_that_adds_to_one_that_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is left out too, with a reason."""
    for name, entry in (("wrong", "ptxla.gleu"), ("other", "wrong.e")):
        path = adding(tmp_path, name, entry, "{e: {op: aten::gelu}}")
        install(tmp_path, f"{name}-ops", monkeypatch, **{f"{name}_ops": returning(path)})
    loaded = load_catalog([])
    assert [left.package for left in loaded.left_out] == ["wrong-ops", "other-ops"]
    assert "wrong.e: there is no such entry" in loaded.left_out[1].reason


def test_goals_for_a_target_leave_out_what_does_not_suit_it() -> None:
    goals = (
        f"a: {{goals: fast, not_for: iree, {F}}}, b: {{goals: [fast, small], {F}}},"
        f" c: {{goals: fast, only_for: [cuda, litert], {F}}}"
    )
    (composite,) = parse_registry(entry(goals), "acme.yaml").composites
    for word, taken in {
        "fast": "ab", "fast@xla": "ab", "fast@iree": "b", "fast@cuda": "abc", "fast@litert": "abc",
        "fast@portable": "b", "small@portable": "b", "a": "a", "c": "c", "small": "b",
    }.items():  # fmt: skip
        assert [alternative.name for alternative in composite.chosen(word)] == list(taken)
    words = [for_target(word, "iree") for word in ("fast", "stock", "a")]
    assert words == ["fast@iree", "stock", "a"]


def test_consumers_are_targets_of_exports() -> None:
    assert {"xla", *CONSUMERS, PORTABLE} == set(TARGETS)
