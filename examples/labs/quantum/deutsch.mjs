// Deutsch and Jozsa: is a function constant or balanced? One question is enough. With two libraries, which must agree.
// silk run -p lab:quantum examples/labs/quantum/deutsch.mjs
import { jsqubits } from "jsqubits";
import QuantumCircuit from "quantum-circuit";

const functions = { constant: () => 1, balanced: (x) => (x & 1) ^ ((x >> 1) & 1) };

// bySteps is the algorithm by jsqubits: three qubits of input, one of output.
function bySteps(f) {
  return jsqubits("|0001>").hadamard(jsqubits.ALL).applyFunction({ from: 1, to: 3 }, 0, f).hadamard({ from: 1, to: 3 }).measure({ from: 1, to: 3 }).result;
}

// balanced as a circuit: the parity of the two lowest bits, which the gates write into qubit 3.
const circuit = new QuantumCircuit(4);
circuit.addGate("x", 0, 3);
for (let qubit = 0; qubit < 4; qubit++) circuit.addGate("h", 1, qubit);
circuit.addGate("cx", 2, [0, 3]);
circuit.addGate("cx", 3, [1, 3]);
for (let qubit = 0; qubit < 3; qubit++) circuit.addGate("h", 4, qubit);
circuit.run();

for (const [name, f] of Object.entries(functions)) {
  const result = bySteps(f);
  console.log(`${name}: measured ${result.toString(2).padStart(3, "0")}, so it is ${result === 0 ? "constant" : "balanced"}`);
}
const ones = [0, 1, 2].map((qubit) => circuit.probability(qubit));
console.log(`the circuit measures 1 with probabilities ${ones.map((p) => p.toFixed(2)).join(" ")}`);
