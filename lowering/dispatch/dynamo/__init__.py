"""Composites in what torch.compile traces.

| module | what it does |
|---|---|
| `functions` | Python functions, written for Dynamo to read: a composite is one node of its graph |
| `calls` | the two operators that stand for a call and its backward in such a graph |
"""
