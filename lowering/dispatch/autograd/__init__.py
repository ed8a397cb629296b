"""Composites that autograd sees: what hooks at autograd's dispatch key and of functions call.

| module | what it does |
|---|---|
| `function` | a call: a composite, and with gradients a `torch.autograd.Function` around it |
| `step` | a call between its forward and its backward: what is kept, and the gradients |
| `definition` | what an entry means in one frontend; shared by both |
| `gradients` | the gradients of a function of tensors, as autograd gives them |
"""
