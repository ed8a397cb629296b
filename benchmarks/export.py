"""What an export costs: beside stock torch_xla, and on one frontend beside the other.

    python -m benchmarks.export [--layers 12] [--growth 2,4,8,12,16,24] [--repeats 7]
                                [--markdown benchmarks/EXPORT.md]
    python -m benchmarks.export --paths gpt2,bert,llama [--layers 12] [--repeats 15]
                                [--markdown benchmarks/EXPORT_PATHS.md]
    python -m benchmarks.export --frontend xla --record xla.json [--models gpt2,bert]
    python -m benchmarks.export --frontend fx --beside xla.json [--models gpt2,bert]
                                [--markdown benchmarks/FRONTENDS.md]

The first two compare with stock torch_xla; `benchmarks/export_costs.py` says how. The other two
export the same training steps on one frontend, and print the table of both;
`benchmarks/frontends.py` says what is measured. The frontends need different releases of PyTorch,
so each of these commands runs in an environment of its own: one with the extra `torch-xla`, and one
with `torch`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from composites.errors import CompositesError
from lowering.frontends.chosen import NAMES


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, help="7 beside stock, 3 on one frontend")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    stock = parser.add_argument_group("beside stock torch_xla")
    stock.add_argument("--layers", type=int, default=12)
    stock.add_argument("--growth", default="2,4,8,12,16,24", help="numbers of layers")
    stock.add_argument("--paths", help="compare the ways to StableHLO, with these models")
    frontend = parser.add_argument_group("one frontend beside the other")
    frontend.add_argument("--frontend", choices=NAMES)
    frontend.add_argument("--models", help="of benchmarks/training_models.py; all, if not given")
    frontend.add_argument("--record", type=Path, help="write what was measured to this file")
    frontend.add_argument("--beside", type=Path, help="such a file of the other frontend")
    given = parser.parse_args(arguments)
    # Each of them imports what the other's environment lacks.
    if given.frontend is None:
        if given.models or given.record or given.beside:
            parser.error("--models, --record and --beside go with --frontend")
        from benchmarks import export_costs

        export_costs.run(
            given.layers, given.growth, given.repeats or 7, given.paths, given.markdown
        )
        return
    if given.paths:
        parser.error("--paths is about torch_xla and goes without --frontend")
    if given.markdown and not given.beside:
        parser.error("the page shows both frontends: --markdown needs --beside FILE")
    from benchmarks import frontends

    try:
        models = frontends.models_named(given.models)
        other = frontends.read(given.beside, given.frontend) if given.beside else None
    except ValueError as error:
        parser.error(str(error))
    try:
        found = frontends.record(given.frontend, models, given.repeats or 3)
    except CompositesError as error:
        raise SystemExit(str(error)) from None
    if given.record:
        frontends.write(given.record, found)
    if other is not None:
        first, second = (found, other) if given.frontend == "xla" else (other, found)
        page = frontends.markdown(first, second)
        if given.markdown:
            given.markdown.write_text(page, encoding="utf-8")
        print(page)


if __name__ == "__main__":
    main()
