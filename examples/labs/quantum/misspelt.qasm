// A mistake, and where it is: silk run examples/labs/quantum/misspelt.qasm
OPENQASM 3.0;
include "stdgates.inc";
qubit[2] q;
bit[2] c;
hadamard q[0];
c = measure q;
