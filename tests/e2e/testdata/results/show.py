import math
import os

import silk

silk.show([{"a": 1}, {"b": "x"}])
silk.show([1, None])
silk.show("<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml")
silk.show({"a": math.inf})
child = os.fork()
if child == 0:
    silk.show("child")
    os._exit(0)
os.waitpid(child, 0)
try:
    silk.show(1, "text/xml")
except ValueError:
    pass
else:
    raise SystemExit("it shows XML")
