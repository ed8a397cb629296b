"""`torch.compile(model, backend="composites")`: live programs without torch_xla, on JAX's runtime.

The path of a graph:

| step | module |
|---|---|
| Dynamo's graph of PyTorch functions, on the device of the user's tensors | `backend` |
| numbers that change from call to call, as tensors | `numbers` |
| for sizes that vary, a compiled function for each size | `sizes` |
| the same graph on the device of traced tensors, at which hooks catch calls | `traced_graph` |
| AOTAutograd's graphs of operators, forward and backward, with composites | `backend` |
| these graphs, run with traced tensors; results that share memory | `replay`, `views` |
| StableHLO, with kernels in place of composites; compiled by XLA | `executable`, `chosen_kernels` |
| calls with PyTorch's tensors, which JAX takes without a copy | `exchange` |
| copies on a mesh, or on a device that only JAX has; shardings | `devices`, `input_names` |
| kernels compared with decompositions on the data of a step, on request | `checks` |

`composites.wrap` (`wrapping`, `in_front`) hands AOTAutograd's graphs to another backend of
torch.compile, with composites as operators of `torch.library` (`operators`).
"""
