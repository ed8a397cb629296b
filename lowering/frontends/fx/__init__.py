"""The fx frontend: PyTorch programs without torch_xla, recorded as graphs of aten operators.

Tensors of this frontend have no values. They are on PyTorch's device for backends outside PyTorch
(dispatch key Lazy), below autograd, autocast and functionalization like those of any backend. Each
operator that reaches the backend is a node of a `torch.fx` graph, which rules written in JAX lower.

Needs a PyTorch in which a backend can be written in Python. Tested with torch 2.10 to 2.15.
Importing this package imports neither torch nor jax. `apart` records decompositions for JAX
programs with tensors on the CPU, also with torch 2.9.

| module | content |
|---|---|
| `frontend` | the parts below as one `Frontend` |
| `capture` | traced tensors, and the graph that records what is computed with them |
| `tensors` | types of tensors, and placeholders |
| `sizes` | sizes that vary: PyTorch's symbols, and the symbols of JAX that replace them |
| `dispatcher` | kernels in PyTorch's dispatcher: stock kernels, and this project's overrides |
| `graph` | decompositions as functions of JAX arrays, and composites inserted into the graph |
| `lists`, `strides` | decompositions of `_foreach_` operators, and of views by strides |
| `linear_algebra` | operators without a kernel in PyTorch for the device `meta` |
| `flex_attention` | PyTorch's attention whose scores and mask are functions of positions |
| `autocast` | the operators that `torch.autocast` casts |
| `random` | the random number generator, whose state is an input of the program |
| `aten_graph` | a decomposition as a graph of PyTorch's operators |
| `tracer` | decompositions, traced from functions of placeholders |
| `recorder` | whole programs, recorded and lowered to StableHLO for exports |
| `runner` | recorded calls, run with jax's CPU client |
| `lower` | from nodes of a graph to a function of JAX arrays |
| `apart` | functions of tensors as functions of JAX arrays, recorded outside of programs |
| `derived` | rules of backward operators that JAX derives |
| `sources` | the operator and the line of Python that an operation comes from |
"""

EXTRA = "torch"
"""The extra of the package that installs what the frontend needs."""

LAST_IMPORTED_MODULE = "lowering.frontends.fx.frontend"
"""The module after whose import the composites of XLA_COMPOSITE_OP are turned on."""

DEVICE_TYPE = "lazy"
"""The type of the device of traced tensors, which PyTorch defines and no package registers any
more. The process therefore stays as it was: `torch.accelerator` is the user's, other packages may
register their own device, and any tensor on this device is traced. PyTorch has dispatch keys for
the device, also for autograd and autocast."""

DISPATCH_KEY = "Lazy"
AUTOGRAD_KEY = "AutogradLazy"
FUNCTIONALIZATION_KEY = "Functionalize"
