"""The environment that tests run in, set before torch_xla and jax read it.

By default XLA compiles quickly instead of compiling fast programs: a graph takes a fifth of the
time. Stock and composites are compiled alike, so results must be the same in every bit then, too.
What only XLA's optimizations could change is seen at the full level, which COMPOSITES_XLA=full
asks for and tests/torch_xla/test_full_optimization.py and tests/fx/test_training_bits.py run.
"""

import importlib.metadata
import os
from collections.abc import Mapping
from importlib.util import find_spec

FULL = "full"
LEVEL = "COMPOSITES_XLA"

WITHOUT_YNNPACK = "--xla_cpu_experimental_ynn_fusion_type="
"""Without this flag, XLA:CPU leaves operations beside a sum to YNNPACK, which has an exponential of
its own: the bits of an operation depend on what is beside it. torch_xla 2.9 does not know the flag,
and jaxlib 0.10 and later does."""


def prepare() -> None:
    """Set the environment of this process and of those that it starts."""
    for variable in ("XLA_COMPOSITE_OP", "XLA_COMPOSITE_REGISTRY"):
        os.environ.pop(variable, None)
    os.environ["PJRT_DEVICE"] = "CPU"
    # XLA keeps the programs it compiled, a large one with 400 memory mappings, and Linux gives a
    # process 65530 (vm.max_map_count); beyond that the process ends with a segmentation fault. The
    # suite compiles more than that, so torch_xla keeps the last few only (2048 by default).
    os.environ.setdefault("XLA_COMPILATION_CACHE_SIZE", "32")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of each of the processes of pytest-xdist
    os.environ["XLA_FLAGS"] = _xla_flags(os.environ)


def is_full_level() -> bool:
    """Return whether XLA optimizes in this process, as it does in users'."""
    return os.environ.get(LEVEL) == FULL


def full_level() -> dict[str, str]:
    """Variables with which a process that is started compiles as users' processes do."""
    changed = {LEVEL: FULL}
    return changed | {"XLA_FLAGS": _xla_flags(os.environ | changed)}


def _xla_flags(environment: Mapping[str, str]) -> str:
    quick = _quick_flags()
    flags = [flag for flag in environment.get("XLA_FLAGS", "").split() if flag not in quick]
    return " ".join(flags if environment.get(LEVEL) == FULL else [*flags, *quick])


def _quick_flags() -> list[str]:
    flags = [
        "--xla_backend_optimization_level=0",
        "--xla_cpu_parallel_codegen_split_count=1",
        # The same instructions on each processor: with AVX-512's for f16, other sums are rounded.
        "--xla_cpu_max_isa=AVX2",
    ]
    # A flag that one of torch_xla and jaxlib does not know ends the process; 0.12 dropped this one.
    major, minor = importlib.metadata.version("jaxlib").split(".")[:2]
    if (int(major), int(minor)) < (0, 11):
        flags.append("--xla_cpu_use_fusion_emitters=false")
    if find_spec("torch_xla") is None:
        flags.append(WITHOUT_YNNPACK)
    return flags
