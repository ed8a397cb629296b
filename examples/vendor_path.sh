#!/usr/bin/env bash
# A vendor's package from nothing to a kernel and a lock; docs/vendor-tutorial.md explains the steps.
#
#   bash examples/vendor_path.sh FOLDER      a new folder for the package
#
# It uses the environment whose `pip`, `pytest` and `composites` are on PATH, which needs
# torch-xla-composites with the extras torch and cli, and pytest. The package `acme` is uninstalled at
# the end; its folder stays.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: bash examples/vendor_path.sh FOLDER" >&2; exit 2; }
export PJRT_DEVICE=CPU

composites init acme --directory "$1"
cd "$1"
pip install .
trap 'pip uninstall --yes --quiet acme' EXIT
pytest

# The entries: without mistakes, and right.
composites check src/acme/registry.yaml
composites verify 'acme.*' --strict

# A training step for the compiler, and a kernel in it.
XLA_COMPOSITE_OP='acme.*' composites run examples/train.py
composites export examples/train.py:example --train --ops 'acme.*' -o step
composites compare step --bind acme.softcap@1=acme.kernels:softcap

# What was promised, and that nothing has changed since.
composites lock src/acme/registry.yaml -o registry.lock
composites diff registry.lock src/acme/registry.yaml
composites inspect step/program.mlir --against registry.lock
