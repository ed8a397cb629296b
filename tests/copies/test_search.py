"""Which functions are copies of a named one."""

import importlib
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from composites.registry.validation import parse_registry
from lowering.copies.original import PATCH
from lowering.copies.search import Search

NAMED = '''
import math
import struct as packing
from math import pi

EPS = 1e-6


def half(x):
    """The first half."""
    return x[: len(x) // 2]


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


def turn(x: list, y, by=1, *, eps=EPS):
    """Turn x."""
    return half(x) * by + [pi, math.e, eps, y, packing.calcsize("i")]


def plain(x):
    return [n + 1 for n in x if n is not None]


def signed(x, zero=0.0):
    return x + 1 + zero


class Norm:
    def forward(self, x):
        scale = self.weight
        return scale * sum(x) + self.eps

    def above(self, x):
        return super().__init__() or x


class Base:
    def lift(self, x):
        return [n + self.eps for n in x]

    @property
    def steps(self):
        return 3


class Scaled(Base):
    def scale(self, x):
        return [n * 2 for n in self.lift(x)]

    def forward(self, x):
        return self.scale(x.copy()) * self.steps + self.tail

    def direct(self, x):
        return x.copy() + self.tail

    def unknown(self, x):
        return self.call(x)

    call = sorted
'''

BASE = """class Root:
    def lift(self, x):
        return [n + self.eps for n in x]
    @property
    def steps(self):
        return 3
"""
SCALED = """class Other(Root):
    def scale(self, x):
        return [n * 2 for n in self.lift(x)]
    def forward(self, x):
        return self.scale(x.copy()) * self.steps + self.tail
"""

SAME = {
    "another name, annotations, comments and lines": (
        "class Other:\n"
        "    def call(self, x: int) -> int:\n"
        "        '''The sum.'''  # no more\n"
        "        scale: int = self.weight\n\n"
        "        return (\n            scale * sum(x)\n            + self.eps\n        )\n",
        {"Other.call"},
        "Norm.forward",
    ),
    "what it calls is a copy too": (
        "import math\nimport struct as packing\nfrom math import pi\nE = 1e-6\n"
        "def half(x):\n    return x[: len(x) // 2]\n"
        "def turned(x, y, by=1, *, eps=E):\n"
        "    return half(x) * by + [pi, math.e, eps, y, packing.calcsize('i')]\n",
        {"turned"},
        "turn",
    ),
    "what it calls comes from the named module": (
        "import math\nimport struct as packing\nfrom math import pi\n"
        "from acme_named import half\n"
        "def turned(x, y, by=1, *, eps=0.000001):\n"
        "    return half(x) * by + [pi, math.e, eps, y, packing.calcsize('i')]\n",
        {"turned"},
        "turn",
    ),
    "functions that call each other": (
        "def even(n):\n    return True if n == 0 else odd(n - 1)\n"
        "def odd(n):\n    return False if n == 0 else even(n - 1)\n",
        {"even"},
        "even",
    ),
    "a method whose other methods are copies": (BASE + SCALED, {"Other.forward"}, "Scaled.forward"),
    "methods that are inherited from the named class": (
        "from acme_named import Scaled\nclass Other(Scaled):\n"
        "    def forward(self, x):\n"
        "        return self.scale(x.copy()) * self.steps + self.tail\n",
        {"Other.forward"},
        "Scaled.forward",
    ),
    "other methods that the code does not read": (
        f"{BASE}{SCALED}    def more(self, x):\n        return x\n    tail = 7\n",
        {"Other.forward"},
        "Scaled.forward",
    ),
    "text that is executed": (
        "exec('def plain(x):\\n    return [n + 1 for n in x if n is not None]')\n",
        {"plain"},
        "plain",
    ),
    "two names of one function": (
        "def one(x):\n    return [n + 1 for n in x if n is not None]\ntwo = one\n",
        {"one", "two"},
        "plain",
    ),
}


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module `acme_named`, and a package `acme_models` to write modules into."""
    from lowering.copies import written

    (tmp_path / "acme_named.py").write_text(NAMED)
    (tmp_path / "acme_models").mkdir()
    (tmp_path / "acme_models" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield tmp_path / "acme_models"
    for name in [name for name in sys.modules if name.startswith("acme_")]:
        del sys.modules[name]
    written.written_function.cache_clear()
    written.written_module.cache_clear()


def found(folder: Path, text: str, named: str, *, packages: str = "acme_models") -> set[str]:
    """The copies of a function of `acme_named` in a module with this text."""
    (folder / "model.py").write_text(text)
    return found_in("acme_models.model", named, packages)


def found_in(name: str, named: str, packages: str) -> set[str]:
    """The copies of a function of `acme_named` in a module."""
    module = importlib.import_module(name)
    registry = parse_registry(
        "schema: 1\nnamespace: acme\ncomposites:\n"
        f"  entry: {{function: 'acme_named:{named}', copies: {packages}, operands: [x]}}\n",
        "acme.yaml",
    )
    return {c.target.partition(":")[2] for c in Search.of(registry.composites).in_module(module)}


@pytest.mark.parametrize("case", SAME)
def test_copies_are_found(packages: Path, case: str) -> None:
    text, expected, named = SAME[case]
    assert found(packages, text, named) == expected
    assert ("acme_named" in sys.modules) == ("from acme_named" in text)


PLAIN = "return [n + 1 for n in x if n is not None]"
TURN = "return half(x) * by + [pi, math.e, eps, y, packing.calcsize('i')]"
HEAD = "import math\nimport struct as packing\nfrom math import pi\n"
HALF = "def half(x):\n    return x[: len(x) // 2]\n"
OTHER = {
    "other code": ("def plain(x):\n    return [n + 2 for n in x if n is not None]\n", "plain"),
    "another type of number": ("def plain(x):\n    " + PLAIN.replace("1", "1.0") + "\n", "plain"),
    "another order of operands": ("def signed(x, zero=0.0):\n    return 1 + x + zero\n", "signed"),
    "another default": ("def signed(x, zero=1.0):\n    return x + 1 + zero\n", "signed"),
    "the default's sign": ("def signed(x, zero=-0.0):\n    return x + 1 + zero\n", "signed"),
    "no default": ("def signed(x, zero):\n    return x + 1 + zero\n", "signed"),
    "a keyword's default": (
        f"{HEAD}{HALF}def turn(x, y, by=1, *, eps=2e-6):\n    {TURN}\n", "turn",
    ),
    "another keyword-only parameter": (
        f"{HEAD}{HALF}def turn(x, y, by=1, eps=1e-6):\n    {TURN}\n", "turn",
    ),
    "a helper of the same name with other code": (
        f"{HEAD}def half(x):\n    return x[len(x) // 2 :]\n"
        f"def turn(x, y, by=1, *, eps=1e-6):\n    {TURN}\n", "turn",
    ),
    "a helper that is a class": (
        f"{HEAD}class half(list): pass\ndef turn(x, y, by=1, *, eps=1e-6):\n    {TURN}\n", "turn",
    ),
    "another module of the same name": (
        f"{HEAD}{HALF}import cmath as math\ndef turn(x, y, by=1, *, eps=1e-6):\n    {TURN}\n",
        "turn",
    ),
    "a value that is imported there": (
        f"{HEAD}{HALF}pi = 3\ndef turn(x, y, by=1, *, eps=1e-6):\n    {TURN}\n", "turn",
    ),
    "a built-in of the same name that is not one": (
        "sum = max\nclass Norm:\n    def forward(self, x):\n        scale = self.weight\n"
        "        return scale * sum(x) + self.eps\n", "Norm.forward",
    ),
    "a decorator that wraps it": (
        "import functools\ndef twice(f):\n    @functools.wraps(f)\n"
        "    def call(x):\n        return f(f(x))\n    return call\n"
        f"@twice\ndef plain(x):\n    {PLAIN}\n", "plain",
    ),
    "a variable of an enclosing function": (
        "def outer(y):\n    def plain(x):\n        y\n        " + PLAIN + "\n"
        "    return plain\nplain = outer(1)\n", "plain",
    ),
    "super": (
        "class Norm:\n    def above(self, x):\n        return super().__init__() or x\n",
        "Norm.above",
    ),
    "a generator": ("def plain(x):\n    return (n + 1 for n in x if n is not None)\n", "plain"),
    "a coroutine": (f"async def plain(x):\n    {PLAIN}\n", "plain"),
    "a static method": (
        f"class A:\n    @staticmethod\n    def plain(x):\n        {PLAIN}\n", "plain",
    ),
    "another method that it calls": (
        BASE + SCALED.replace("n * 2", "n * 3"), "Scaled.forward",
    ),
    "another inherited method": (BASE.replace("n + ", "n - ") + SCALED, "Scaled.forward"),
    "a method that overrides the inherited one": (
        BASE + SCALED + "    def lift(self, x):\n        return x\n", "Scaled.forward",
    ),
    "another property": (BASE.replace("3", "4") + SCALED, "Scaled.forward"),
    "a method in place of a property": (BASE.replace("@property", "") + SCALED, "Scaled.forward"),
    "a property in place of a method": (
        BASE.replace("    def lift", "    @property\n    def lift") + SCALED, "Scaled.forward",
    ),
    "a method in place of data": (
        BASE + SCALED + "    def tail(self, x):\n        return x\n", "Scaled.forward",
    ),
    "a property in place of data": (
        "class Other:\n    def direct(self, x):\n        return x.copy() + self.tail\n"
        "    @property\n    def tail(self):\n        return [1]\n", "Scaled.direct",
    ),
    "methods that are not there": (
        "class Other:\n    def forward(self, x):\n"
        "        return self.scale(x.copy()) * self.steps + self.tail\n", "Scaled.forward",
    ),
    "a function that is no method": (
        "def forward(self, x):\n"
        "    return self.scale(x.copy()) * self.steps + self.tail\n", "Scaled.forward",
    ),
    "a callable that is no function": (
        "class Other:\n    call = max\n    def unknown(self, x):\n        return self.call(x)\n",
        "Scaled.unknown",
    ),
    "what was imported from elsewhere": ("from acme_named import plain\n", "plain"),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHER)
def test_other_functions_are_left_alone(packages: Path, case: str) -> None:
    text, named = OTHER[case]
    assert found(packages, text, named) == set()


def test_only_the_named_packages_are_searched(packages: Path) -> None:
    text, copies, named = SAME["two names of one function"]
    assert (
        found(packages, text, named, packages="[acme_model, acme, acme_models.modelling]") == set()
    )
    assert found(packages, text, named, packages="[acme, acme_models.model]") == copies


def test_a_replaced_function_is_compared_as_it_was(packages: Path) -> None:
    text, copies, named = SAME["what it calls is a copy too"]
    found(packages, text, named)
    module = sys.modules["acme_models.model"]
    for name in ("half", "turned"):
        original = vars(module)[name]

        def replacement(*arguments: object) -> None: ...

        replacement.__wrapped__ = original  # type: ignore[attr-defined]
        replacement.__module__ = original.__module__
        setattr(replacement, PATCH, None)
        setattr(module, name, replacement)
    assert found(packages, text, named) == copies


def test_a_helper_that_the_program_has_replaced(packages: Path) -> None:
    text, copies, named = SAME["what it calls is a copy too"]
    assert found(packages, text, named) == copies
    vars(sys.modules["acme_models.model"])["half"] = lambda x: x
    assert found(packages, text, named) == set()


@pytest.mark.parametrize(
    "named",
    ["missing", "Norm.missing", "Norm"],
)
def test_a_function_that_is_not_in_the_file_has_no_copies(packages: Path, named: str) -> None:
    assert found(packages, SAME["two names of one function"][0], named) == set()


@pytest.mark.parametrize("change", ["twice", "compiled", "gone"])
def test_a_file_that_does_not_tell(packages: Path, change: str) -> None:
    file = packages.parent / "acme_named.py"
    if change == "twice":
        file.write_text(NAMED + "\n\ndef plain(x):\n    return x\n")
    elif change == "compiled":
        file.rename(file.with_suffix(".txt"))
    else:
        file.unlink()
    importlib.invalidate_caches()
    assert found(packages, SAME["two names of one function"][0], "plain") == set()


def test_copies_in_a_zip_archive(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, copies, named = SAME["two names of one function"]
    with zipfile.ZipFile(packages / "acme.zip", "w") as archive:
        archive.writestr("acme_zipped/__init__.py", "")
        archive.writestr("acme_zipped/model.py", text)
    monkeypatch.syspath_prepend(packages / "acme.zip")
    assert found_in("acme_zipped.model", named, "acme_zipped") == copies


def test_a_package_that_imports_its_own_module(packages: Path) -> None:
    from lowering.copies.written import written_module

    (packages / "__init__.py").write_text("from . import parts\n")
    module = written_module("acme_models")
    assert module is not None
    assert [(m.name, name) for m, name, _ in module.places("parts")] == [("acme_models", "parts")]


def test_a_constant_that_is_its_own_name(packages: Path) -> None:
    constant = "max = max\ndef plain(x):\n    return max(x)\n"
    (packages.parent / "acme_named.py").write_text(constant)
    importlib.invalidate_caches()
    assert found(packages, constant, "plain") == set()


def test_the_order_of_entries_is_kept(packages: Path) -> None:
    (packages / "model.py").write_text(SAME["two names of one function"][0])
    module = importlib.import_module("acme_models.model")
    line = "{function: 'acme_named:plain', copies: acme_models, operands: [x]}"
    registry = parse_registry(
        f"schema: 1\nnamespace: acme\ncomposites:\n  b: {line}\n  a: {line}\n", "acme.yaml"
    )
    search: Callable[..., Search] = Search.of
    for entries in (registry.composites, registry.composites[::-1]):
        assert [c.entries for c in search(entries).in_module(module)] == [entries, entries]
