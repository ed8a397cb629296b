"""One pass, one file: functions from module to module, for use alone or in a pipeline."""
