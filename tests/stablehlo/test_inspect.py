"""inspect: counts, sizes and shares; the table; JSON; the page."""

import io
import json
from html.parser import HTMLParser

from composites_testing.passes import composite_module, load
from rich.console import Console

from lowering.stablehlo import (
    Module,
    clean,
    composite_count,
    composite_table,
    html_page,
    inspect,
)

HOSTILE = Module.parse(
    """
    module @"<script>alert(1)</script>" {
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = stablehlo.composite "acme.f" %x {composite_attributes = {
          a = "<img src=x onerror=alert(1)>", b = "[red]plain[/red]"},
          decomposition = @impl} : (tensor<2xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32>
      }
      func.func private @impl(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }
    }
    """
)


def test_counts_sizes_and_shares() -> None:
    report = inspect(load("block"))
    rows = {row.name: row for row in report.composites}
    # twice, dot_general, twice, and in outer: tanh, subtract. The constants do not count.
    assert report.operations == 5
    assert report.plain_operations == 1
    assert report.bytes == 5 * 4 * 8 * 4
    assert [row.name for row in report.composites] == ["acme.twice", "ptxla.outer", "acme.tanh"]
    twice = rows["acme.twice"]
    assert (twice.count, twice.operations, twice.bytes, twice.share) == (2, 1, 128, 0.4)
    assert twice.attributes == {"axis": 1, "scale": 2.0}
    assert twice.version == 0
    assert (twice.operands, twice.results) == (("tensor<4x8xf32>",), ("tensor<4x8xf32>",))
    outer = rows["ptxla.outer"]
    assert (outer.count, outer.operations, outer.bytes, outer.version) == (1, 2, 256, 1)
    assert rows["acme.tanh"].count == 1


def test_nested_composites_count_once_for_each_call_around_them() -> None:
    module = load("nested_duplicates")
    expected = {"acme.inner": 3, "acme.other": 1, "acme.outer": 2}
    assert composite_count(module) == expected
    assert composite_count(clean(module)) == expected


ATTRIBUTES: dict[str, object] = {
    "true": True,
    '"x"': "x",
    "bf16": "bf16",
    "[1, [true]]": [1, [True]],
    "{k = 1}": {"k": 1},
    "unit": True,
    "[0xFF800000 : f32]": ["-inf"],
    "array<i64: 1, 2>": [1, 2],
    "dense<[[1, 2]]> : tensor<1x2xi64>": [[1, 2]],
    "dense<[true, false, true]> : tensor<3xi1>": [True, False, True],
    "dense<1.5> : tensor<2xbf16>": "dense<1.500000e+00> : tensor<2xbf16>",
}


def test_attributes_as_json() -> None:
    for written, expected in ATTRIBUTES.items():
        module = composite_module("acme.f", "tensor<2xf32>", attributes=f"{{b = {written}}}")
        report = json.loads(inspect(module).to_json())
        assert report["composites"][0]["attributes"] == {"b": expected}


def test_table() -> None:
    text = printed(load("block"))
    assert "composites of @block" in text
    assert "acme.twice" in text
    assert "axis=1, scale=2" in text
    assert "4x8xf32, 4x8xf32 -> 4x8xf32" in text
    assert "ptxla.outer v1" in text
    assert "40.0%" in text
    assert "5 operations, 4 of them in composites (80%); 640 B of values" in text
    assert "[red]plain[/red]" in printed(HOSTILE)


def printed(module: Module) -> str:
    output = io.StringIO()
    Console(file=output, width=160).print(composite_table(inspect(module)))
    return output.getvalue()


def test_page_is_well_formed_and_loads_nothing() -> None:
    module = load("transformer_step_torch_xla_2_9")
    page = html_page(clean(module))
    tags = well_formed(page)
    assert tags.count("rect") == 21
    assert not {"script", "link"} & set(tags)
    assert not [address for address in ("http:", "https:", "src=", "url(") if address in page]
    assert page == html_page(clean(module))
    # torch_xla prints each composite inside a call of its own.
    page = html_page(module)
    assert well_formed(page).count("rect") == 21
    assert "ptxla.softmax_backward → " in page


def test_page_escapes_what_comes_from_the_module() -> None:
    page = html_page(HOSTILE)
    tags = well_formed(page)
    assert "script" not in tags
    assert "img" not in tags
    assert "&lt;script&gt;" in page


def well_formed(page: str) -> list[str]:
    """The tags of a page in order, after checking that they are closed in order."""

    class Checker(HTMLParser):
        void = frozenset({"meta"})

        def __init__(self) -> None:
            super().__init__()
            self.tags: list[str] = []
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.tags.append(tag)
            if tag not in self.void:
                self.open.append(tag)

        def handle_startendtag(self, tag: str, attrs: object) -> None:
            self.tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    return checker.tags
