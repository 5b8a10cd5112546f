"""The first program: silk run examples/hello.py"""

import platform
import sys

print(f"hello from Python {sys.version.split()[0]} on {platform.node()}, Linux {platform.release()}")
