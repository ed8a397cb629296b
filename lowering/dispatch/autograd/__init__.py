"""Composites that autograd sees, which hooks at autograd's dispatch key and of functions call.

| module | content |
|---|---|
| `function` | a call: a composite, inside a `torch.autograd.Function` if there are gradients |
| `step` | a call between its forward and its backward: saved tensors, and gradients |
| `definition` | the meaning of an entry in one frontend; shared by `function` and `step` |
| `computation` | the forward of a call as a computation, once for each kind of call |
| `compiled_calls` | operators for a call and its backward in graphs of torch.compile |
| `gradients` | the gradients of a function of tensors, computed with autograd |
"""
