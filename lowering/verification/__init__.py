"""Checks that entries compute the right thing: `composites verify`.

Each entry is run on samples: on the CPU, on the CPU in f64, in the stock lowering, and with the
entry on. The results are compared.

| module | what it does |
|---|---|
| `subjects` | what is verified: entries of registries, functions under `@composite` |
| `samples` | calls to run, and where they come from |
| `opinfo` | PyTorch's database of samples; the only module that uses it |
| `runs` | runs samples, and keeps their results on the CPU |
| `bits` | whether two tensors are the same in every bit |
| `tolerances` | how much numbers may differ, by dtype |
| `judgement` | from runs to findings, as pure functions |
| `results` | findings and reports as frozen values, which need no torch |
| `verify` | all of it, one entry and dtype after the other |
"""
