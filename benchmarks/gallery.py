"""Operators before and after: their StableHLO in stock torch_xla, and with composites on.

    python -m benchmarks.gallery

It writes docs/gallery.md. Calls are the examples of `composites show`; nothing is run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness.pages import markdown_table, page
from lowering import activation
from lowering.locking import recorded, recorded_example
from lowering.sample_calls import NoCalls, example_calls
from lowering.stablehlo import Module, inspect

PAGE = Path(__file__).parents[1] / "docs" / "gallery.md"
NAMES = (
    *("gelu", "silu", "mish", "glu", "softmax", "log_softmax", "layer_norm", "rms_norm"),
    *("group_norm", "scaled_dot_product_attention", "mse_loss", "cross_entropy_loss"),
    *("embedding", "topk", "sort", "cumsum", "max_pool2d", "avg_pool2d", "lstm_cell", "lstm"),
)
ABOUT = """Each operator is one call, with its gradients, on small tensors of f32, recorded by
torch_xla. Instructions are the operations of the program without constants; a composite is one. A
part of the forward call follows for each. `python -m benchmarks.gallery` writes this page, and
`composites show NAME` shows any entry in full."""
SHOWN = 6
"""Lines of a program that are shown."""


def programs(name: str) -> tuple[list[Module], list[Module]]:
    """The forward call and the gradients of an entry: with stock torch_xla, and as composites."""
    catalog, frontend = activation.catalog(), activation.backend().frontend
    entry = next(e for e in catalog.find(f"ptxla.{name}") if e.name == name)
    calls = example_calls(entry)
    assert not isinstance(calls, NoCalls), calls.reason
    with activation.all_off():
        stock = [recorded(frontend, calls[0], leaves) for leaves in (0, None)]
        ours = [recorded_example(frontend, entry, catalog, calls[0], n) for n in (0, None)]
    return stock, ours


def instructions(module: Module) -> int:
    """The instructions of a program; a composite is one."""
    report = inspect(module)
    return report.plain_operations + sum(call.count for call in report.composites)


def body(module: Module) -> str:
    """The first lines of @main, without constants."""
    main = module.text.partition("@main")[2].partition("{\n")[2].partition("\n  }")[0]
    lines = [line[4:] for line in main.splitlines() if "stablehlo.constant" not in line]
    more = [f"… {len(lines) - SHOWN} more"] if len(lines) > SHOWN + 1 else lines[SHOWN:]
    return "\n".join(["```mlir", *lines[:SHOWN], *more, "```"])


def paragraphs() -> Iterator[str | list[str]]:
    both = {name: programs(name) for name in NAMES}
    head = ("entry", "forward: stock", "composites", "gradients: stock", "composites")
    counts = (
        [f"`{name}`", *(str(instructions(m)) for pair in zip(*kinds, strict=True) for m in pair)]
        for name, kinds in both.items()
    )
    yield markdown_table(head, counts, numbers=range(1, 5))
    for name, ((before, _), (after, _)) in both.items():
        yield from (f"## {name}", "Before:", body(before), "After:", body(after))


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(page("Gallery", ABOUT, *paragraphs()), encoding="utf-8")


if __name__ == "__main__":
    main()
