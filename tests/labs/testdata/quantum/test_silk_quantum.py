import json
import os
import unittest

import numpy as np
import qutip
import silk_quantum


class TestReports(unittest.TestCase):
    def test_summary_of_a_ket(self):
        got = silk_quantum.summary(qutip.bell_state("11"))
        self.assertEqual([2, 0], [got["qubits"], got["omitted"]])
        self.assertEqual(["01", "10"], sorted(entry["basis"] for entry in got["amplitudes"]))
        self.assertAlmostEqual(1, sum(entry["probability"] for entry in got["amplitudes"]))

    def test_summary_keeps_the_largest(self):
        got = silk_quantum.summary(np.ones(4096) / 64)
        self.assertEqual([12, 1024, 3072], [got["qubits"], len(got["amplitudes"]), got["omitted"]])

    def test_what_is_no_state_of_qubits(self):
        for wrong in [1], [1, 0, 0]:
            with self.assertRaisesRegex(ValueError, "2, 4, 8"):
                silk_quantum.summary(wrong)

    def test_sample(self):
        self.assertEqual({"10": 50}, silk_quantum.sample([0, 0, 1j, 0], 50))

    def test_report(self):
        silk_quantum.report({f"{n:06b}": n + 1 for n in range(64)}, [1, 0])
        with open("counts.json") as file:
            self.assertEqual(2080, json.load(file)["shots"])
        self.assertTrue(os.path.getsize("histogram.png") > 1000 and os.path.getsize("state.json") > 50)


if __name__ == "__main__":
    unittest.main()
