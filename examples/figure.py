"""Throws darts for pi and leaves a figure open: it becomes a PNG among the artifacts.

silk run --artifacts out examples/figure.py
"""

import numpy as np
import matplotlib.pyplot as plt

rng = np.random.default_rng(7)
points = rng.uniform(-1, 1, size=(200_000, 2))
inside = (points**2).sum(axis=1) <= 1
estimates = 4 * np.cumsum(inside) / np.arange(1, len(inside) + 1)

for n in (100, 10_000, 200_000):
    print(f"{n:>7} darts: pi is about {estimates[n - 1]:.4f}")

plt.semilogx(estimates, label="estimate")
plt.axhline(np.pi, color="black", linewidth=0.5, label="pi")
plt.xlabel("darts")
plt.legend()
