"""Fits a decay to noisy measurements: silk run --artifacts out examples/labs/python/fit.py"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import curve_fit


def decay(t, amplitude, rate, offset):
    return amplitude * np.exp(-rate * t) + offset


rng = np.random.default_rng(11)
t = np.linspace(0, 5, 60)
measured = decay(t, 4, 1.2, 0.5) + rng.normal(0, 0.1, t.size)
found, covariance = curve_fit(decay, t, measured, p0=(1, 1, 0))
for name, value, error in zip(("amplitude", "rate", "offset"), found, np.sqrt(np.diag(covariance))):
    print(f"{name:>9} {value:6.3f} +- {error:.3f}")

plt.plot(t, measured, ".", label="measured")
plt.plot(t, decay(t, *found), label="fitted")
plt.legend()
