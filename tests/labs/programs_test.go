//go:build unix

package labs

import "strings"

// light are the labs whose images every test has; heavy have large ones, which are built and tested when that is asked for.
var (
	light = []string{"lab:text", "lab:python", "lab:node", "lab:repo"}
	heavy = []string{"lab:quantum", "lab:evm"}
)

// program is one example, and what comes of it.
type program struct {
	lab   string
	file  string // in the folder of the lab
	from  string // another folder
	dir   bool   // the folder is copied in, and args are the command
	flags []string
	args  []string

	ends      string // the outcome; empty means ok
	stdout    []string
	stderr    []string
	artifacts []string
	pictures  map[string]string // artifacts that the documentation shows, by their names there
}

func (p program) name() string {
	if p.dir {
		return p.lab + "/" + strings.Join(p.args, " ")
	}
	return p.lab + "/" + p.file
}

// folder is where the program's files are.
func (p program) folder() string {
	if p.from != "" {
		return p.from
	}
	return "../../examples/labs/" + strings.TrimPrefix(p.lab, "lab:")
}

func (p program) outcome() string {
	if p.ends == "" {
		return "ok"
	}
	return p.ends
}

var programs = []program{
	{
		lab: "lab:text", file: "log.sh",
		stdout:    []string{`^200 1 times, 12 ms on average$`, `^500 2 times, 300 ms on average$`, `^2026-03-01T10:01:30 GET /orders/9$`},
		artifacts: []string{"access.log", "failed.txt"},
	},
	{lab: "lab:text", file: "join.sql", stdout: []string{`^Middlemarch\|2\|44\nDune\|3\|37\nUlysses\|0\|0$`}},
	{lab: "lab:text", file: "tree.jq", args: []string{"-n", "-r"}, stdout: []string{`^src: 510\nsrc/lib: 200$`}},

	{lab: "lab:python", file: "fit.py", stdout: []string{`^     rate  1\.\d{3} \+- 0\.0\d\d$`}, artifacts: []string{"figure-1.png"}},
	{lab: "lab:python", file: "sales.py", stdout: []string{`^1 day without a number, best week 18 January$`}, artifacts: []string{"weekly.csv"}},
	{lab: "lab:python", dir: true, flags: []string{"-p", "lab:python"}, args: []string{"pytest", "-q", "test_roman.py"}, stdout: []string{`^7 passed`}},

	{lab: "lab:node", file: "words.ts", stdout: []string{`^a          ###\nwood       ###\nwoodchuck  ###$`}},
	{lab: "lab:node", file: "pack.mjs", stdout: []string{`^\d+ bytes became less than a third; nothing is lost$`}, artifacts: []string{"lines.gz"}},
	{lab: "lab:node", dir: true, flags: []string{"-p", "lab:node"}, args: []string{"node", "--test", "queue.test.mjs"}, stdout: []string{`^# pass 2$`}},

	{lab: "lab:repo", from: "../../examples/labs/repo/rle", dir: true, flags: []string{"-p", "lab:repo"}, args: []string{"make", "check"}, stdout: []string{`^1 of 1 passed$`}, artifacts: []string{"rle", "packed"}},
	{lab: "lab:repo", from: "../../examples/labs/repo/queue", dir: true, flags: []string{"-p", "lab:repo"}, args: []string{"go", "test", "-v", "./..."}, stdout: []string{`^--- PASS: TestRing `, `^ok\s+example\.net/queue`}},
	{lab: "lab:repo", file: "history.sh", flags: []string{"-p", "lab:repo"}, stdout: []string{`^revision 6 broke it$`}},

	{
		lab: "lab:quantum", file: "bell.qasm",
		stdout:    []string{`^OpenQASM 3\.0, 1024 shots$`, `^  \|11⟩   0\.7071 \+ 0\.0000i   50\.0 %$`, `^  00 +\d+ +\d+\.\d %$`},
		artifacts: []string{"counts.json", "state.json", "histogram.png"}, pictures: map[string]string{"histogram.png": "quantum-bell.png"},
	},
	{
		lab: "lab:quantum", file: "ghz.qasm", args: []string{"--shots", "4096"},
		stdout:    []string{`^OpenQASM 2\.0, 4096 shots$`, `^  \|11111⟩ +0\.7071`, `^  11111 +\d+`},
		artifacts: []string{"counts.json", "histogram.png"},
	},
	{
		lab: "lab:quantum", file: "grover.qs",
		stdout:    []string{`^after two rounds`, `^Q#, 1024 shots$`, `^  \|101⟩ +0\.9723`},
		artifacts: []string{"counts.json", "state.json", "histogram.png"}, pictures: map[string]string{"histogram.png": "quantum-grover.png"},
	},
	{
		lab: "lab:quantum", file: "rabi.py", flags: []string{"-p", "lab:quantum"},
		stdout:    []string{`^half a turn excites 1\.0000 of the atom, 0\.\d+ with loss$`},
		artifacts: []string{"counts.json", "state.json", "histogram.png", "figure-1.png"}, pictures: map[string]string{"figure-1.png": "quantum-rabi.png"},
	},
	{
		lab: "lab:quantum", file: "deutsch.mjs", flags: []string{"-p", "lab:quantum"},
		stdout: []string{`^constant: .* constant$`, `^balanced: .* balanced$`, `probabilities 1\.00 1\.00 0\.00$`},
	},
	{
		lab: "lab:quantum", file: "misspelt.qasm", ends: "failed",
		stderr: []string{`^misspelt\.qasm:6:1: undefined symbol: hadamard$`, `^    hadamard q\[0\];$`, `^    \^$`},
	},
	{
		lab: "lab:quantum", from: "testdata/quantum", dir: true, flags: []string{"-p", "lab:quantum"}, args: []string{"node", "--test", "quantum-text.test.mjs"},
		stdout: []string{`^# fail 0$`},
	},
	{
		lab: "lab:quantum", from: "testdata/quantum", dir: true, flags: []string{"-p", "lab:quantum"}, args: []string{"python3", "-m", "unittest", "test_silk_quantum"},
		stderr: []string{`^OK$`},
	},
	{
		lab: "lab:evm", file: "counter.sol", args: []string{"--call", "add(40)", "--call", "Counter.add(2)", "--trace"},
		stdout:    []string{`^ok +add\(40\) -> 40 +gas \d+$`, `^ok +Counter\.add\(2\) -> 42 `, `^ +event Added\(0x\w{40}, 40\)$`, `^ +Counter\.total\(\) is 42$`, `^Counter \(deployment\) +1 `},
		artifacts: []string{"contracts.json", "gas.json", "trace.txt"},
	},
	{
		lab: "lab:evm", file: "vault.sol",
		stdout:    []string{`^ok +VaultTest\.testCallingBackGainsNothing\(\)`, `^ok +VaultTest\.testRefusesMoreThanIsThere\(\)`, `^ok +VaultTest\.testStartsEmpty\(\)`, `^Vault withdraw\(uint256\) +\d`},
		artifacts: []string{"contracts.json", "gas.json"},
	},
	{
		lab: "lab:evm", file: "token.sol", ends: "failed",
		stdout:    []string{`^failed +TokenTest\.testBurnAll\(\): reverted: balance too low$`, `^ok +TokenTest\.testBurnSome\(\)`},
		stderr:    []string{`^what failed, call by call:$`, `^  Token\.burn\(1000\) +gas \d+ +reverted: balance too low$`},
		artifacts: []string{"contracts.json", "gas.json", "trace.txt"},
	},
	{
		lab: "lab:evm", dir: true, flags: []string{"-p", "lab:evm"}, args: []string{"node", "--test", "token.test.mjs"},
		stdout: []string{`^# pass 3$`, `^# fail 0$`},
	},
	{
		lab: "lab:evm", dir: true, flags: []string{"-p", "lab:evm"}, args: []string{"node", "rehearse.mjs"},
		stdout: []string{`^block 2 of chain 31337: the counter is at 42$`, `^after adding 8 it is at 50$`, `^adding 0 is refused: nothing to add$`},
	},
	{
		lab: "lab:evm", from: "testdata/evm", dir: true, flags: []string{"-p", "lab:evm"}, args: []string{"node", "--test", "silk-chain.test.mjs"},
		stdout: []string{`^# fail 0$`},
	},
	{
		lab: "lab:evm", file: "live.mjs", flags: []string{"-p", "lab:evm"}, ends: "violated",
		stdout: []string{`^by name: it is not found$`},
	},
}
