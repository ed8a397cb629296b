"""The torch_xla frontend: the only package that uses private interfaces of torch_xla.

Tested with torch 2.9.0 and 2.9.1 and torch_xla 2.9.0. Other versions are used if they have the
names in `capabilities`. Importing this package imports neither torch nor torch_xla.

| module | content |
|---|---|
| `frontend` | the parts below as one `Frontend` |
| `capabilities` | the names that torch_xla and PyTorch must have, and an error if one is missing |
| `dispatcher` | kernels in PyTorch's dispatcher: stock kernels, and this project's overrides |
| `graph` | the graph that torch_xla builds, and computations inserted into it |
| `tracer` | decompositions, traced from functions of placeholders |
| `recorder` | whole programs, recorded and lowered for exports |
| `runner` | graphs of tensors, run and read by `composites verify` |
| `random` | torch_xla's random number generator |
| `tensors` | types and values of tensors, and placeholders |
| `modes` | torch_xla's switches during tracing, and an error if traced code calls torch_xla.sync |
| `value_guard` | an exception, instead of an abort, if the value of a placeholder is read |
| `dumps` | the files to which torch_xla writes its graphs |
"""

EXTRA = "torch-xla"
"""The extra of the package that installs what the frontend needs."""

LAST_IMPORTED_MODULE = "torch_xla._internal.c10d_registration"
"""The last module that `import torch_xla` imports in torch_xla 2.9.0, after registering its
kernels."""

DISPATCH_KEY = "XLA"
"""The key of torch_xla's kernels."""
AUTOGRAD_KEY = "AutogradXLA"
FUNCTIONALIZATION_KEY = "Functionalize"
