"""Tests of the frontend without torch_xla. A process has one frontend, so these are collected only
where torch_xla is not installed: `.ci/run fx`."""

from importlib.util import find_spec

collect_ignore_glob = ["test_*.py"] if find_spec("torch_xla") is not None else []
