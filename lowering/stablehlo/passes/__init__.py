"""The passes, by operations: functions from module to module, usable alone or in a pipeline."""
