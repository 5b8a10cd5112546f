"""Shows a table, a figure and JSON as results, and changes one of them in its place.

silk run --artifacts out examples/results.py
"""

import matplotlib.pyplot as plt
import pandas as pd
import silk

state = silk.show("working")
walks = pd.DataFrame({"step": range(1, 6), "left": [0, 1, 0, 2, 1], "right": [1, 0, 2, 1, 3]})
silk.show(walks)
walks.plot(x="step", y=["left", "right"])
silk.show(plt)
silk.show("<b>HTML is data here</b>", "text/html")
state.update({"steps": len(walks), "sum": int(walks["right"].sum() - walks["left"].sum())})
