"""What generated hooks call: from the operands of a call to a composite in the graph.

| module | what it does |
|---|---|
| `backend` | calls caught at the backend's dispatch key |
| `autograd` | calls caught where autograd sees them, forward and backward |
| `dynamo` | calls in what torch.compile traces |
| `decomposition` | the decomposition of an entry as HLO |
| `computations`, `keys` | what was lowered, kept by all that a call's composite depends on |
| `guarded_self` | an object in place of a method's `self` while its body is traced |
| `wide_products` | the backend's kernels of two own operators |
"""
