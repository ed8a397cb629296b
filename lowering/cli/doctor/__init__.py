"""`composites doctor`: whether composites can work here, and what keeps them from it.

    surroundings -> findings -> a table, or JSON

Two child processes do what could bring this one down: `program` imports torch and torch_xla as a
user's program does, and `registries` reads the registries. `processes` runs them side by side.
`versions`, `variables`, `copies`, `script` and `plugin` make findings of what they tell and of what
can be seen from here. `examination` puts all together, and `command` prints it.
"""
