"""`composites.wrap`, without its imports of PyTorch and JAX."""

from collections.abc import Callable
from typing import Any

from composites.errors import CompositesError
from lowering.frontends.chosen import chosen, import_package


def wrap(backend: str | Callable[..., Any]) -> Callable[..., Any]:
    """A backend of torch.compile that has composites, compiled by another backend:
    `torch.compile(model, backend=composites.wrap("inductor"))`.

    The graphs of the forward and of the backward are compiled separately. In them, each composite
    is one operator of `torch.library`, such as `ptxla::gelu.v1`; `lowering.live.operators` has its
    schema.

    Args:
        backend: a name in `torch.compiler.list_backends()`, or a function that torch.compile
            accepts.

    Raises:
        CompositesError: there is no such backend, or `backend` is neither a name nor a function.
        MissingPackageError: torch_xla is installed, or JAX is not.
    """
    from composites.torch_internals import backend_of_name

    if not isinstance(backend, str) and not callable(backend):
        raise CompositesError(f"backend must be a name or a function, not {backend!r}")
    try:
        inner = backend_of_name(backend) if isinstance(backend, str) else backend
    except LookupError as error:
        raise CompositesError(str(error)) from error
    if backend == "openxla" and chosen() == "xla":
        return inner  # composites are kernels of torch_xla
    import_package()
    from lowering.live.in_front import wrap_backend

    return wrap_backend(inner)
