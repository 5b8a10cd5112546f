package selftest

// Programs that several tests run.
const (
	ask = `import os, sys, urllib.request
url = sys.argv[1] if len(sys.argv) > 1 else os.environ["ISCL_API_URL"]
print(urllib.request.urlopen(url, timeout=10).read().decode())
`
	read = `import sys
open(sys.argv[1]).read()
print("EFFECT")
`
	family = `import socket, sys
socket.socket(int(sys.argv[1]), socket.SOCK_RAW if sys.argv[1] == "17" else socket.SOCK_STREAM)
print("EFFECT")
`
	allocate = `import time
block = bytearray(150 << 20)
for i in range(0, len(block), 4096):
    block[i] = 1
time.sleep(1)
print("EFFECT")
`
)

var skillTests = []SkillTest{
	{
		Name: "network", About: "asks a service of this host, whose URL it has", Published: true, Program: ask,
		Free: SkillSetup{Network: true, API: "{service}"}, Held: SkillSetup{API: "{service}"},
		Want: SkillWant{Outcome: "violated", Rule: "network.inet", ExitCode: 159},
	},
	{
		Name: "filesystem", About: "makes a file in /workspace", Published: true,
		Program: "open('/workspace/made', 'w').write('x')\nprint('EFFECT')\n",
		Free:    SkillSetup{Lab: true}, Want: SkillWant{Outcome: "failed", ExitCode: 1},
	},
	{
		Name: "process", About: "starts a program", Published: true,
		Program: "import subprocess\nsubprocess.run(['/bin/echo', 'EFFECT'], check=True)\n",
		Free:    SkillSetup{Spawn: true}, Want: SkillWant{Outcome: "failed", Refused: "process.spawn", ExitCode: 1},
	},
	{
		Name: "timeout", About: "goes on beyond its time, and heeds no signal", Published: true,
		Program: "import signal, time\nfor s in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n    signal.signal(s, signal.SIG_IGN)\nend = time.monotonic() + 3\n" +
			"while time.monotonic() < end:\n    pass\nprint('EFFECT')\n",
		Free: SkillSetup{TimeoutMs: 60_000}, Held: SkillSetup{TimeoutMs: 1000}, Want: SkillWant{Outcome: "timeout", MostMs: 2900, ExitCode: 137},
	},
	{
		Name: "memory", About: "takes 150 MiB and has them for a second", Published: true, Program: allocate,
		Free: SkillSetup{MemoryMb: 512}, Held: SkillSetup{MemoryMb: 64}, Want: SkillWant{Outcome: "oom", ExitCode: 137},
	},

	{
		Name: "another port", About: "asks another service of this host than its own, by the name of its own", Program: ask,
		Free: SkillSetup{Network: true, API: "{other}"}, Held: SkillSetup{Network: true, API: "{service}", Args: []string{"{inside}"}},
		Want: SkillWant{Outcome: "violated", Rule: "egress.", ExitCode: 159},
	},
	{
		Name: "another host", About: "asks a host that is not its service, by its address", Program: ask,
		Free: SkillSetup{Network: true, API: "{service}"}, Held: SkillSetup{Network: true, API: "{service}", Args: []string{"http://192.0.2.1/"}}, // TEST-NET-1, RFC 5737: nobody's
		Want: SkillWant{Outcome: "violated", Rule: "egress.", ExitCode: 159},
	},
	{
		Name: "own files", About: "cuts off, opens and marks its own program",
		Program: "import os\nfor change in (lambda: os.truncate(__file__, 0), lambda: os.chmod(__file__, 0o777), lambda: os.utime(__file__), lambda: os.setxattr(__file__, 'user.x', b'y'), lambda: os.remove(__file__)):\n" +
			"    try:\n        change()\n        print('EFFECT')\n    except OSError as e:\n        print(e)\n",
		Free: SkillSetup{Lab: true},
	},
	{
		Name: "shared memory", About: "makes a file in /dev/shm", Program: "open('/dev/shm/made', 'w').write('x')\nprint('EFFECT')\n",
		Free: SkillSetup{Lab: true}, Want: SkillWant{Outcome: "failed", ExitCode: 1},
	},
	{
		Name: "second program", About: "becomes another program", Program: "import os\nos.execv('/bin/echo', ['echo', 'EFFECT'])\n",
		Free: SkillSetup{Spawn: true}, Want: SkillWant{Outcome: "failed", Refused: "process.spawn", ExitCode: 1},
	},
	{
		Name: "fork", About: "divides", Program: "import os\nif os.fork() == 0:\n    os._exit(0)\nos.wait()\nprint('EFFECT')\n",
		Free: SkillSetup{Spawn: true}, Want: SkillWant{Outcome: "failed", Refused: "process.spawn", ExitCode: 1},
	},
	{
		Name: "threads", About: "starts a thread, which every skill may", Program: "import threading\nt = threading.Thread(target=print, args=('EFFECT',))\nt.start()\nt.join()\n",
		Ordinary: true,
	},
	{
		Name: "many processes", About: "starts 100 processes",
		Program: "import os, time\nn = 0\ntry:\n    for n in range(100):\n        if os.fork() == 0:\n            time.sleep(60)\n            os._exit(0)\n    print('EFFECT')\nexcept OSError as e:\n    print(n, e)\n",
		Free:    SkillSetup{Lab: true, Processes: 200}, Held: SkillSetup{Spawn: true, MemoryMb: 512}, Want: SkillWant{Flag: "pids_limit_hit"},
	},
	{
		Name: "memory of files", About: "puts 50 MiB into /tmp and has them there for a second",
		Program: "import time\nwith open('/tmp/made', 'wb') as f:\n    for _ in range(50):\n        f.write(b'x' * (1 << 20))\ntime.sleep(1)\nprint('EFFECT')\n",
		Free:    SkillSetup{MemoryMb: 512}, Held: SkillSetup{MemoryMb: 40}, Want: SkillWant{Outcome: "oom", ExitCode: 137},
	},
	{
		Name: "a lie about memory", About: "exits with the status of those that were without memory, and was not", Program: "print('EFFECT', flush=True)\nraise SystemExit(137)\n",
		Ordinary: true, Want: SkillWant{Outcome: "failed", ExitCode: 137},
	},
	{
		Name: "accounts", About: "reads /etc/passwd", Program: read, Free: SkillSetup{Args: []string{"/workspace/main.py"}}, Held: SkillSetup{Args: []string{"/etc/passwd"}},
		Want: SkillWant{Outcome: "violated", Rule: "file.accounts", ExitCode: 159},
	},
	{
		Name: "raw packets", About: "makes a socket for packets, where one for this sandbox is free", Program: family, Free: SkillSetup{Args: []string{"1"}}, Held: SkillSetup{Args: []string{"17"}}, // AF_UNIX, AF_PACKET
		Want: SkillWant{Outcome: "violated", Rule: "network.", ExitCode: 159},
	},
	{
		Name: "virtual machine sockets", About: "makes a socket to a hypervisor, where one for this sandbox is free", Program: family, Free: SkillSetup{Args: []string{"1"}}, Held: SkillSetup{Args: []string{"40"}}, // AF_VSOCK
		Want: SkillWant{Outcome: "violated", Rule: "network.", ExitCode: 159},
	},
	{
		Name: "a changed file", About: "is another program than the one that was registered, by one byte", Program: "print('EFFECT')\n",
		Tampered: true, Want: SkillWant{Outcome: "denied", Rule: "file_hash_mismatch", ExitCode: 126},
	},
}
