"""Makes `readers` importable: pytest's importlib mode adds no folder to the path."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
