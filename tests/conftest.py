"""What all tests share."""

import os

# XLA keeps the programs it compiled, two memory mappings each and more, and Linux gives a process
# 65530 (vm.max_map_count); beyond that the process ends with a segmentation fault. The suite
# compiles more than that, so torch_xla keeps the last few only (2048 by default).
os.environ.setdefault("XLA_COMPILATION_CACHE_SIZE", "128")
