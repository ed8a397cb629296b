"""The scripts of benchmarks/ are no part of the installed package. The repository comes last on the
path, so that the packages which they import are those that are installed."""

import sys
from pathlib import Path

REPOSITORY = str(Path(__file__).parents[2])

if REPOSITORY not in sys.path:
    sys.path.append(REPOSITORY)
