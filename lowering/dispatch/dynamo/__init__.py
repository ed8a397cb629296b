"""Composites in code that torch.compile traces.

| module | what it does |
|---|---|
| `functions` | Python functions that Dynamo traces, in which a composite is one node of the graph |
| `calls` | the two operators that represent a call and its backward in such a graph |
"""
