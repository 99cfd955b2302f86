import sys
from pathlib import Path

# The benchmarks are run as modules from the root.
ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)
