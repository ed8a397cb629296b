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
from lowering.stablehlo.inspection.graph import dataflow_graph

HOSTILE = load("hostile")


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


def test_wrapping_and_sharing_do_not_change_the_report() -> None:
    before, after = load("wrapped_gelu"), clean(load("wrapped_gelu"))
    assert inspect(before).composites == inspect(after).composites
    assert inspect(before).operations == inspect(after).operations
    assert {row.count for row in inspect(after).composites} == {1, 2}


ATTRIBUTES: dict[str, object] = {
    "true": True,
    "-3 : i32": -3,
    '"x"': "x",
    "bf16": "bf16",
    "@impl": "@impl",
    "[1, [true]]": [1, [True]],
    "{k = 1}": {"k": 1},
    "unit": True,
    "[0xFF800000 : f32]": ["-inf"],
    "array<i64: 1, 2>": [1, 2],
    "dense<[[1, 2]]> : tensor<1x2xi64>": [[1, 2]],
    "dense<true> : tensor<2xi1>": [True, True],
    "dense<[true, false, true]> : tensor<3xi1>": [True, False, True],
    "dense<2.5> : tensor<f32>": 2.5,
    "dense<1.5> : tensor<2xbf16>": "dense<1.500000e+00> : tensor<2xbf16>",
}


def test_attributes_as_json() -> None:
    for written, expected in ATTRIBUTES.items():
        module = composite_module("acme.f", "tensor<2xf32>", attributes=f"{{b = {written}}}")
        report = json.loads(inspect(module).to_json())
        assert report["composites"][0]["attributes"] == {"b": expected}


def test_modules_without_composites_and_unusual_types() -> None:
    report = inspect(load("plain_calls"))
    assert report.composites == ()
    assert report.operations == report.plain_operations == 8
    assert inspect(Module.parse("module {}")).operations == 0
    module = Module.parse(
        """
        func.func @main(%x: tensor<?x4xf32>, %t: !stablehlo.token) -> !stablehlo.token {
          %0 = stablehlo.negate %x : tensor<?x4xf32>
          %1 = stablehlo.after_all %t : !stablehlo.token
          return %1 : !stablehlo.token
        }
        """
    )
    assert inspect(module).bytes == 16


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


X = "tensor<4x8xf32>"


def printed(module: Module) -> str:
    output = io.StringIO()
    Console(file=output, width=160).print(composite_table(inspect(module)))
    return output.getvalue()


def test_graph_of_a_training_step() -> None:
    graph = dataflow_graph(clean(load("transformer_step_torch_xla_2_9")))
    forward, backward = ["ptxla.softmax", "ptxla.gelu"], ["ptxla.gelu_backward"]
    backward.append("ptxla.softmax_backward")
    composites = [node.label for node in graph.nodes if node.composite]
    assert composites == forward * 2 + backward * 2
    assert len(graph.nodes) < 30
    layer = {node.number: node.layer for node in graph.nodes}
    assert all(layer[edge.source] < layer[edge.target] for edge in graph.edges)
    assert sum(node.outputs for node in graph.nodes) == 25


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


def test_page_sums_up_what_is_too_large_to_be_read() -> None:
    lines = [
        f'%x{number + 1} = stablehlo.composite "acme.{name}" %x{number}'
        f" {{composite_attributes = {{n = {number} : i64}}, decomposition = @f}} : ({X}) -> {X}"
        for number in range(600)
        for name in [("even", "odd")[number % 2]]
    ]
    body = "\n".join(lines)
    page = html_page(
        Module.parse(f"""
            func.func @main(%x0: {X}) -> {X} {{ {body}
              return %x600 : {X} }}
            func.func private @f(%x: {X}) -> {X} {{ return %x : {X} }}
        """)
    )
    tags = well_formed(page)
    assert "svg" not in tags
    assert "The graph has 600 boxes" in page
    assert page.count('<td data-of="to">acme.') == 2
    assert page.count('<td data-of="types">') == 400
    assert "… and 200 more" in page


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
