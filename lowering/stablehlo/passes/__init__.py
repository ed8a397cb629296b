"""The passes, one in each file: functions from module to module, usable alone or in a pipeline."""
