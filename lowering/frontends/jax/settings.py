"""JAX's settings that affect the computation of a traced function."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import jax

from lowering.stablehlo.run import enable_x64

# The settings that change numbers or types, among those on which JAX's traces depend and which a
# program can change for a `with` block.
_MANAGERS = {
    "enable_x64": enable_x64,
    "default_matmul_precision": jax.default_matmul_precision,
    "numpy_dtype_promotion": jax.numpy_dtype_promotion,
    "numpy_rank_promotion": jax.numpy_rank_promotion,
    "softmax_custom_jvp": jax.softmax_custom_jvp,
    "default_prng_impl": jax.default_prng_impl,
    "threefry_partitionable": jax.threefry_partitionable,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings under which a call was made."""

    values: tuple[Any, ...]

    @classmethod
    def now(cls) -> "Settings":
        """Return the settings of this thread."""
        return cls(tuple(getattr(jax.config, f"jax_{name}") for name in _MANAGERS))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """A context with these settings."""
        both = zip(_MANAGERS.values(), self.values, Settings.now().values, strict=True)
        with ExitStack() as stack:
            for manager, value, current in both:
                if value != current:
                    stack.enter_context(manager(value))
            yield
