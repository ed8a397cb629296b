"""The torch_xla frontend: the only package that touches private interfaces of torch_xla.

Seen with torch 2.9.0 and 2.9.1 and torch_xla 2.9.0. Importing this package imports neither.

| module | what it offers |
|---|---|
| `frontend` | the parts below as one `Frontend` |
| `dispatcher` | kernels in PyTorch's dispatcher: the stock ones, ours in their place |
| `graph` | the graph that torch_xla builds: computations put into it |
| `tracer` | a function traced with placeholders, which gives a decomposition |
| `recorder` | a whole program recorded and lowered, for exports |
| `random` | torch_xla's generator of random numbers |
| `tensors` | types and values of tensors, placeholders |
| `modes` | torch_xla's process-wide switches while something is traced |
| `value_guard` | an exception in place of the abort when a placeholder's value is read |
| `dumps` | the files in which torch_xla writes its graphs |
"""

LAST_IMPORTED_MODULE = "torch_xla._internal.c10d_registration"
"""What `import torch_xla` imports last, in torch_xla 2.9.0: its kernels are registered then."""
