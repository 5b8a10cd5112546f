// Grover's search finds 101 among the eight states of three qubits: silk run examples/labs/quantum/grover.qs
import Std.Diagnostics.*;

operation Main() : Result[] {
    use qubits = Qubit[3];
    ApplyToEach(H, qubits);
    for _ in 1..2 {
        Mark(qubits);
        Reflect(qubits);
    }
    Message("after two rounds, 101 stands out");
    DumpMachine();
    return MResetEachZ(qubits);
}

/// Turns the sign of |101⟩.
operation Mark(qubits : Qubit[]) : Unit {
    within {
        X(qubits[1]);
    } apply {
        Controlled Z(qubits[0..1], qubits[2]);
    }
}

/// Reflects the state about the even superposition.
operation Reflect(qubits : Qubit[]) : Unit {
    within {
        ApplyToEachA(H, qubits);
        ApplyToEachA(X, qubits);
    } apply {
        Controlled Z(qubits[0..1], qubits[2]);
    }
}
