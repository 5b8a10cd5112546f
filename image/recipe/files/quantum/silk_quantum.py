"""Shows what a quantum program came to, in images that have QuTiP.

report(counts, state) writes counts.json, state.json and histogram.png into the current directory. counts is a mapping of
outcomes to how often they came; state a ket of QuTiP's or a sequence of amplitudes. sample(state, shots) measures all of
a state's qubits. `python3 -m silk_quantum counts.json histogram.png` draws the picture alone.
"""

import json
import sys

_SHOWN = 32  # bars; what comes less often is one bar together
_KEPT = 1024  # amplitudes in state.json


def report(counts=None, state=None):
    if state is not None:
        _write("state.json", summary(state))
    if counts:
        _write("counts.json", {"shots": sum(counts.values()), "counts": dict(sorted(counts.items()))})
        histogram(counts, "histogram.png")


def summary(state):
    """The largest amplitudes of a state, by basis state, the first qubit first."""
    amplitudes = _amplitudes(state)
    qubits = _qubits(amplitudes)
    listed = [
        {"basis": f"{index:0{qubits}b}", "re": float(a.real), "im": float(a.imag), "probability": float(abs(a) ** 2)}
        for index, a in enumerate(amplitudes)
        if abs(a) ** 2 > 1e-12
    ]
    listed.sort(key=lambda entry: (-entry["probability"], entry["basis"]))
    return {"qubits": qubits, "amplitudes": listed[:_KEPT], "omitted": max(0, len(listed) - _KEPT)}


def sample(state, shots=1024, rng=None):
    """Measures all qubits shots times. rng is a numpy.random.Generator; without one each call differs."""
    import numpy as np

    amplitudes = _amplitudes(state)
    qubits = _qubits(amplitudes)
    probabilities = np.abs(amplitudes) ** 2
    drawn = (rng or np.random.default_rng()).multinomial(shots, probabilities / probabilities.sum())
    return {f"{index:0{qubits}b}": int(n) for index, n in enumerate(drawn) if n}


def histogram(counts, name):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shots = sum(counts.values())
    bars = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(n for _, n in bars[_SHOWN:])
    bars = sorted(bars[:_SHOWN]) + ([("other", rest)] if rest else [])
    figure, axes = plt.subplots(figsize=(max(4, 1.5 + 0.4 * len(bars)), 3.2), layout="constrained")
    drawn = axes.bar([outcome for outcome, _ in bars], [n for _, n in bars], color="#4466aa")
    axes.bar_label(drawn, fontsize=8)
    axes.set_ylabel(f"of {shots} shots")
    axes.spines[["top", "right"]].set_visible(False)
    if max(len(outcome) for outcome, _ in bars) * len(bars) > 40:
        axes.tick_params(axis="x", rotation=90)
    figure.savefig(name, dpi=120, metadata={"Software": None})
    plt.close(figure)


def _amplitudes(state):
    import numpy as np

    full = getattr(state, "full", None)  # of a Qobj
    return np.asarray(full() if full else state, dtype=complex).ravel()


def _qubits(amplitudes):
    qubits = len(amplitudes).bit_length() - 1
    if len(amplitudes) < 2 or len(amplitudes) != 1 << qubits:
        raise ValueError(f"a state of qubits has 2, 4, 8, ... amplitudes, not {len(amplitudes)}")
    return qubits


def _write(name, value):
    with open(name, "w") as file:
        json.dump(value, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    with open(sys.argv[1]) as source:
        histogram(json.load(source)["counts"], sys.argv[2])
