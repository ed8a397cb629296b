"""The functions that generated hooks call: from the operands of a call to a composite in the graph.

| module | content |
|---|---|
| `call` | a call as a hook passes it on, and as its entry reads it |
| `backend` | calls caught at the backend's dispatch key |
| `autograd` | calls caught at autograd's dispatch key, forward and backward |
| `backward` | values that a backward saves, takes and returns, also for JAX programs |
| `compiled_functions` | functions that torch.compile traces, each a node of its graph |
| `definition` | an entry in one frontend: its function, its alternatives and its backward |
| `decomposition`, `alternatives` | a decomposition, of the entry or chosen, as a composite |
| `computations`, `keys` | the cache of lowered computations, and the keys of calls |
| `reads` | values that a function under `@composite` reads from outside |
| `guarded_self` | an object that replaces a method's `self` while its body is traced |
"""
