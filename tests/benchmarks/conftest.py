"""`benchmarks` is a folder of the repository and not an installed package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
