"""A driven atom that loses energy: Rabi oscillations by QuTiP, the figure, and what measuring the last state gives.

silk run -p lab:quantum --artifacts out examples/labs/quantum/rabi.py
"""

import matplotlib.pyplot as plt
import numpy as np
import qutip
import silk_quantum

drive, loss = 2 * np.pi, 0.35
ground, excited = qutip.basis(2, 1), qutip.basis(2, 0)
times = np.linspace(0, 4, 201)

alone = qutip.sesolve(0.5 * drive * qutip.sigmax(), ground, times)
lossy = qutip.mesolve(0.5 * drive * qutip.sigmax(), ground, times, c_ops=[np.sqrt(loss) * qutip.sigmam()])
population = [qutip.expect(excited.proj(), states) for states in (alone.states, lossy.states)]

print(f"half a turn excites {population[0][25]:.4f} of the atom, {population[1][25]:.4f} with loss")
print(f"after four turns {population[1][-1]:.4f} is left; steady state {qutip.expect(excited.proj(), qutip.steadystate(0.5 * drive * qutip.sigmax(), [np.sqrt(loss) * qutip.sigmam()])):.4f}")

quarter = qutip.sesolve(0.5 * drive * qutip.sigmax(), ground, [0, 0.25]).states[-1]
silk_quantum.report(silk_quantum.sample(quarter, 1000, np.random.default_rng(5)), quarter)

plt.plot(times, population[0], label="alone")
plt.plot(times, population[1], label="with loss")
plt.xlabel("turns")
plt.ylabel("excited")
plt.legend()
