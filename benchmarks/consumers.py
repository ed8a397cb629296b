"""Exported models on consumers of StableHLO, compared with PyTorch on the CPU.

    python -m benchmarks.consumers [--names "bert|llama"] [--consumers jax,iree,litert]
                                   [--kinds inference,gradients,step] [--budget 120]
                                   [--results FILE] [--programs FOLDER]
                                   [--markdown docs/consumers.md]

Each model of benchmarks/consumer_models.py is exported as inference, gradients and a step of AdamW.
The program then goes through the passes of the consumer's target, and runs on jax, IREE and LiteRT.
An export and a cell have processes of their own, because consumers abort and hang, and time limits.

A cell is the largest error of all outputs, each relative to its largest value, or the reason why
there is none. The variance that batch norm keeps is not compared: torch_xla 2.9 averages the biased
one.

With `--results`, cells are written to a file of JSON lines as soon as they are known, and cells
that are in it do not run again. `--programs` keeps the exported programs, and takes those that are
there.
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal, get_args

from benchmarks.consumer_runs import FLOOR, Consumer, measure_error
from benchmarks.harness.pages import rendered, versions_of
from benchmarks.harness.runs import append_records, chosen, parser_of, read_records

Kind = Literal["inference", "gradients", "step"]
Key = tuple[str, Kind, Consumer]
MODELS = (
    *("mobilenet", "resnet", "unet", "swin", "mixtral", "lora_int8", "stn", "gemma", "qwen2_moe"),
    *("clip", "whisper", "mamba", "bert", "llama", "segmentation", "gptj", "t5", "hubert"),
)
"""The names of `benchmarks.consumer_models.MODELS`, which needs torch to read. The last three were
drawn by lot: random.Random(0).sample of the others of ARCHITECTURES, by name."""
PACKAGES = (
    "torch",
    "torch_xla",
    "transformers",
    "jax",
    "iree-base-compiler",
    "litert-converter",
    "ai-edge-litert",
)
TOLERANCE = 1e-4
"""The error up to which a cell counts as right."""
TITLES: dict[Consumer, str] = {"jax": "jax", "iree": "IREE", "litert": "LiteRT"}


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of one program on one consumer."""

    model: str
    kind: Kind
    consumer: Consumer
    error: float | None = None
    reason: str = ""

    @property
    def key(self) -> Key:
        return self.model, self.kind, self.consumer

    @property
    def right(self) -> bool:
        return self.error is not None and self.error <= TOLERANCE


REFUSED = re.compile(
    r"failed to legalize operation '[^']+'|unresolved custom op: \S+"
    r"|[Ff]ailed to prepare[^\n]*|Encountered unresolved custom op[^\n]*"
    r"|does not take [^;\n]+"
    r"|'[\w.]+' op [^\n]{0,80}|ExportError: [^\n]{0,120}|STABLEHLO_\w+[^\n]{0,80}"
)
MARK = "error: "


def run_cells(keys: Sequence[Key], programs: Path, seconds: float) -> Iterator[Cell]:
    """Run cells, in their order. A program is exported when its first cell runs."""
    failed: dict[Path, str] = {}
    for name, kind, consumer in keys:
        folder = programs / f"{name}-{kind}"
        if folder not in failed and not (folder / "program.mlir").exists():
            reason = ended(["--export", name, kind, str(folder)], seconds)
            if reason:
                failed[folder] = f"the export: {reason}"
        if folder in failed:
            yield Cell(name, kind, consumer, reason=failed[folder])
            continue
        outcome = ended(["--cell", str(folder), consumer], seconds)
        if isinstance(outcome, float):
            yield Cell(name, kind, consumer, error=outcome)
        else:
            yield Cell(name, kind, consumer, reason=outcome)


def ended(arguments: Sequence[str], seconds: float) -> float | str:
    """The error that this script prints with these arguments, in a process of its own; or the
    reason why it failed, empty for an export that is done."""
    command = [sys.executable, "-m", "benchmarks.consumers", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"longer than {seconds:.0f} s"
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return float(line.removeprefix(MARK))
    return describe_failure(done.stderr, done.returncode) if done.returncode else ""


def describe_failure(messages: str, status: int) -> str:
    """The operation that was refused, or the last line, in a few words."""
    if match := REFUSED.search(messages):
        return match.group()
    if status < 0:
        return f"ended by signal {-status}"
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    return lines[-1][:160] if lines else f"ended with status {status}"


def text_of(cell: Cell | None) -> str:
    if cell is None:
        return "not run"
    return cell.reason if cell.error is None else f"{cell.error:.0e}"


def markdown(cells: Sequence[Cell]) -> str:
    """The page: a table for each kind of program, and the reasons as numbered notes."""
    by_key = {cell.key: cell for cell in cells}
    notes: dict[str, int] = {}

    def shown(key: Key) -> str:
        cell = by_key.get(key)
        if cell is not None and cell.error is None:
            number = notes.setdefault(cell.reason.replace("`", ""), len(notes) + 1)
            return f"[note {number}](#notes)"
        is_wrong = cell is not None and not cell.right
        return f"**{text_of(cell)}**" if is_wrong else text_of(cell)

    consumers, kinds = get_args(Consumer), get_args(Kind)
    tables = {
        kind: [(name, [shown((name, kind, key)) for key in consumers]) for name in MODELS]
        for kind in kinds
    }
    counts = {key: [0, 0] for key in product(kinds, consumers)}
    for cell in cells:
        counts[cell.kind, cell.consumer][0] += cell.right
        counts[cell.kind, cell.consumer][1] += 1
    errors = [c.error for c in cells if c.error is not None and not math.isnan(c.error)]
    return rendered(
        "consumers.md.jinja",
        titles=[TITLES[consumer] for consumer in consumers],
        tables=tables,
        counts={k: [counts[k, consumer] for consumer in consumers] for k in kinds},
        notes=list(notes),
        models=len(MODELS),
        tolerance=f"{TOLERANCE:.0e}",
        floor=FLOOR,
        largest=f"{max(errors):.0e}" if errors else "none",
        versions=versions_of(*PACKAGES),
    )


def main() -> None:
    parser = parser_of(__doc__, budget=120.0)
    parser.add_argument("--consumers", default=",".join(get_args(Consumer)))
    parser.add_argument("--kinds", default=",".join(get_args(Kind)))
    parser.add_argument("--programs", type=Path, help="keep exported programs in this folder")
    parser.add_argument("--export", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.export:
        from benchmarks.consumer_programs import export

        name, kind, folder = options.export
        export(name, kind, Path(folder))
        return
    if options.cell:
        folder, consumer = options.cell
        print(f"{MARK}{measure_error(Path(folder), consumer)}")
        return
    names = chosen(MODELS, options.names)
    consumers = [name for name in get_args(Consumer) if name in options.consumers.split(",")]
    kinds = [kind for kind in get_args(Kind) if kind in options.kinds.split(",")]
    if not consumers or not kinds:
        allowed = ", ".join((*get_args(Consumer), *get_args(Kind)))
        sys.exit(f"no consumer or kind of these names (there are {allowed})")
    cells = {cell.key: cell for cell in (Cell(**row) for row in read_records(options.results))}
    keys = [(name, kind, consumer) for kind, name, consumer in product(kinds, names, consumers)]
    with tempfile.TemporaryDirectory() as folder:
        missing = [key for key in keys if key not in cells]
        for cell in run_cells(missing, options.programs or Path(folder), options.budget):
            cells[cell.key] = cell
            append_records(options.results, [cell])
    for key in keys:
        print("\t".join((*key, text_of(cells[key]))))
    if options.markdown:
        options.markdown.write_text(markdown(list(cells.values())), encoding="utf-8")


if __name__ == "__main__":
    main()
