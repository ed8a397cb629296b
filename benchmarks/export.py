"""What an export costs: beside stock torch_xla, and on one frontend beside the other.

    python -m benchmarks.export [--repeats 7] [--markdown benchmarks/EXPORT.md]
    python -m benchmarks.export --frontend xla --record xla.json [--models gpt2,bert]
    python -m benchmarks.export --frontend fx --beside xla.json [--models gpt2,bert]
                                [--markdown benchmarks/FRONTENDS.md]

The first one compares with stock torch_xla; `benchmarks/export_costs.py` says how. The other two
export the same training steps on one frontend, and print the table of both;
`benchmarks/frontends.py` says what is measured. The frontends need different releases of PyTorch,
so each of these commands runs in an environment of its own: one with the extra `torch-xla`, and one
with `torch`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.pages import publish
from composites.errors import CompositesError
from lowering.frontends.chosen import NAMES


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, help="7 beside stock, 3 on one frontend")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    frontend = parser.add_argument_group("one frontend beside the other")
    frontend.add_argument("--frontend", choices=NAMES)
    frontend.add_argument("--models", help="of benchmarks/training_models.py; all, if not given")
    frontend.add_argument("--record", type=Path, help="write what was measured to this file")
    frontend.add_argument("--beside", type=Path, help="such a file of the other frontend")
    options = parser.parse_args(arguments)
    # Each of them imports what the other's environment lacks.
    if options.frontend is None:
        if options.models or options.record or options.beside:
            parser.error("--models, --record and --beside go with --frontend")
        from benchmarks import export_costs

        publish(export_costs.measured_page(options.repeats or 7), options.markdown)
        return
    if options.markdown and not options.beside:
        parser.error("the page shows both frontends: --markdown needs --beside FILE")
    from benchmarks import frontends

    try:
        models = frontends.models_named(options.models)
        other = frontends.read(options.beside, options.frontend) if options.beside else None
    except ValueError as error:
        parser.error(str(error))
    try:
        own = frontends.record(options.frontend, models, options.repeats or 3)
    except CompositesError as error:
        raise SystemExit(str(error)) from None
    if options.record:
        frontends.write(options.record, own)
    if other is not None:
        first, second = (own, other) if options.frontend == "xla" else (other, own)
        publish(frontends.markdown(first, second), options.markdown)


if __name__ == "__main__":
    main()
