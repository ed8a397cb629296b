"""The names of torch_xla and PyTorch that the frontend needs, because versions say too little.

Vendors have forks of torch_xla for other releases of PyTorch. A fork that has these names is used,
whatever its version. `tests/torch_xla/test_capabilities.py` compares the list with the names that
this package reads.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from operator import attrgetter

from composites.errors import MissingPackageError, installing

# `_is_placecholder` is spelled like this in torch_xla 2.9.
NEEDED: Mapping[str, Sequence[str]] = {
    "torch.library": ("get_kernel",),
    "torch_xla": (
        "_XLAC._check_tensor_need_materialization", "_XLAC._get_base_seed_as_tensor",
        "_XLAC._get_ir_debug", "_XLAC._get_stablehlo", "_XLAC._get_tensors_xla_device_data_node",
        "_XLAC._get_use_eager_mode", "_XLAC._get_xla_all_numbers_special_scalars",
        "_XLAC._get_xla_sharding_spec", "_XLAC._get_xla_tensors_hlo_proto",
        "_XLAC._get_xla_tensors_text", "_XLAC._is_placecholder", "_XLAC._set_ir_debug",
        "_XLAC._set_use_eager_mode", "_XLAC._set_xla_all_numbers_special_scalars",
        "_XLAC._xla_counter_names", "_XLAC._xla_counter_value",
        "_XLAC._xla_create_placeholder_tensor", "_XLAC._xla_get_tensor_id",
        "_XLAC._xla_mark_dynamic", "_XLAC._xla_op_computation_from_module_proto",
        "_XLAC._xla_step_marker", "_XLAC._xla_sync_live_tensors", "_XLAC._xla_sync_multi",
        "_XLAC._xla_user_computation", "_XLAC.lowering.LoweringContext.build",
        "_XLAC.lowering.LoweringContext.device_parameter_id_tensor_mapping",
        "_XLAC.lowering.LoweringContext.hlo", "_XLAC.lowering.LoweringContext.tensor_parameter_id",
        "_XLAC.profiler.scope_pusher", "device",
    ),
    "torch_xla.core.xla_builder": ("create_placeholder_tensor",),
    "torch_xla.core.xla_model": ("get_rng_state", "send_cpu_data_to_device", "set_rng_state"),
    "torch_xla.experimental.scan": ("_SCAN_COMPUTATION_CACHE",),
    "torch_xla.runtime": ("device_type", "is_spmd"),
}  # fmt: skip
"""Names by module. The frontend imports these modules anyway."""

ADVICE = (
    f"take releases that have them, such as those of {installing('torch-xla')};"
    " with PyTorch 2.10 or later, composites.export(frontend='fx') needs no torch_xla"
)
"""The remedy if names are missing."""


def missing() -> tuple[str, ...]:
    """The missing names, each with its module."""
    pairs = [(module, name) for module, names in NEEDED.items() for name in names]
    return tuple(f"{module}.{name}" for module, name in pairs if not _has(module, name))


def check() -> None:
    """Check that the frontend can be imported.

    Raises:
        MissingPackageError: torch_xla or PyTorch lacks names.
    """
    if lacking := missing():
        raise MissingPackageError(f"{sentence(lacking)}; {ADVICE}")


def sentence(lacking: Sequence[str], most: int = 3) -> str:
    """A sentence that lists missing names."""
    said = []
    for package in dict.fromkeys(name.partition(".")[0] for name in lacking):
        names = [name for name in lacking if name.partition(".")[0] == package]
        more = f" and {len(names) - most} more" if len(names) > most else ""
        release = getattr(sys.modules.get(package), "__version__", "")
        said.append(f"{package} {release} lacks {', '.join(names[:most])}{more}")
    return f"{', and '.join(said)}, which composites need"


def _has(module: str, name: str) -> bool:
    try:
        attrgetter(name)(import_module(module))
    except MemoryError:
        raise
    except Exception:  # whatever a fork raises, the name is missing
        return False
    return True
