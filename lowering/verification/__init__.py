"""Checks that entries compute correct results: `composites verify`.

Each entry is run on samples: on the CPU, on the CPU in f64, in the stock lowering, and with the
entry on. The results are compared.

| module | contents |
|---|---|
| `subjects` | the subjects: entries of registries, functions under `@composite` |
| `samples` | calls to run, and their sources |
| `opinfo` | PyTorch's database of samples; the only module that uses it |
| `runs` | runs samples, and keeps their results on the CPU |
| `bits` | bitwise comparison of two tensors |
| `tolerances` | accepted errors of numbers, by dtype |
| `judgement` | from runs to findings, as pure functions |
| `results` | findings and reports as frozen values, which need no torch |
| `verify` | all steps, for each entry and dtype |
"""
