//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/egress/process"
)

// networked is what the way out of a sandbox costs: silk's gateway beside gVisor's own stack, which sends frames into a network namespace by a pair of
// devices. The program and the server are the same, and so is the address.
type networked struct {
	contender string
	down, up  float64       // bytes a second, measured by the program; medians
	connect   time.Duration // a connection with one byte each way, by the program; median of its own median
	lost      int           // of netCrowd connections at once
}

const (
	netBytes  = 200_000_000
	netRounds = 5
	netCrowd  = 200
	netTries  = 200
	netHost   = "10.251.77.1" // of the pair of devices; the server listens there
	netGuest  = "10.251.77.2"
)

// netProgram says how long what it does took, in seconds, and how many connections were lost.
const netProgram = `
import json, selectors, socket, statistics, sys, time
host, port, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
tries, crowd = int(sys.argv[4]), int(sys.argv[5])
def dial(word):
    s = socket.create_connection((host, port), 30)
    s.sendall(word)
    return s
out = {}
buf = bytearray(1 << 18)
s, n, start = dial(b"d"), 0, time.perf_counter()
while True:
    got = s.recv_into(buf)
    if not got: break
    n += got
assert n == size, n
out["down"] = time.perf_counter() - start
s, n, start = dial(b"u"), 0, time.perf_counter()
while n < size:
    part = min(len(buf), size - n)
    s.sendall(memoryview(buf)[:part])
    n += part
assert s.recv(1) == b"k"
out["up"] = time.perf_counter() - start
all = []
for _ in range(tries):
    start = time.perf_counter()
    s = dial(b"e")
    assert s.recv(1) == b"e"
    all.append(time.perf_counter() - start)
    s.close()
out["connect"] = statistics.median(all)
sel, done, kept = selectors.DefaultSelector(), 0, [] # all stay open
for _ in range(crowd):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex((host, port))
    sel.register(s, selectors.EVENT_WRITE)
end = time.monotonic() + 60
while sel.get_map() and time.monotonic() < end and done < crowd:
    for key, mask in sel.select(1):
        s = key.fileobj
        try:
            if mask & selectors.EVENT_WRITE:
                s.send(b"e")
                sel.modify(s, selectors.EVENT_READ)
            elif s.recv(1) == b"e":
                done += 1
                sel.unregister(s)
                kept.append(s)
            else:
                sel.unregister(s)
        except OSError as e:
            print(e, file=sys.stderr)
            sel.unregister(s)
out["lost"] = crowd - done
print(json.dumps(out))
`

// netServe answers the program until the listener is closed.
func netServe(l net.Listener) {
	zeros := make([]byte, 1<<18)
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			word := make([]byte, 1)
			if _, err := io.ReadFull(c, word); err != nil {
				return
			}
			switch word[0] {
			case 'd':
				for n := 0; n < netBytes; {
					got, err := c.Write(zeros[:min(len(zeros), netBytes-n)])
					if err != nil {
						return
					}
					n += got
				}
			case 'u':
				buf := make([]byte, 1<<18)
				for n := 0; n < netBytes; {
					got, err := c.Read(buf)
					if err != nil {
						return
					}
					n += got
				}
				_, _ = c.Write([]byte("k"))
			default:
				_, _ = c.Write(word)
				_, _ = io.Copy(io.Discard, c)
			}
		}()
	}
}

// netPair makes a network namespace with one end of a pair of devices in it. runsc takes the addresses off the device that it finds: renew gives them
// back.
func netPair(ctx context.Context) (name string, renew, remove func() error, err error) {
	name = fmt.Sprintf("silk-bench-%d", os.Getpid())
	ours, theirs := fmt.Sprintf("sbh%d", os.Getpid()%100000), fmt.Sprintf("sbg%d", os.Getpid()%100000)
	ip := func(ctx context.Context, args ...string) error {
		if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	remove = func() error { return ip(context.WithoutCancel(ctx), "netns", "delete", name) }
	if err := ip(ctx, "netns", "add", name); err != nil {
		return "", nil, nil, err
	}
	for _, line := range []string{
		"link add " + ours + " type veth peer name " + theirs, "link set " + theirs + " netns " + name,
		"addr add " + netHost + "/30 dev " + ours, "link set " + ours + " up",
		"-n " + name + " addr add " + netGuest + "/30 dev " + theirs, "-n " + name + " link set " + theirs + " up", "-n " + name + " link set lo up",
	} {
		if err := ip(ctx, strings.Fields(line)...); err != nil {
			return "", nil, nil, errors.Join(err, remove())
		}
	}
	renew = func() error {
		return ip(ctx, "-n", name, "addr", "replace", netGuest+"/30", "dev", theirs)
	}
	return name, renew, remove, nil
}

// networks measures silk, runsc, and a plain process on the host's own loopback.
func networks(ctx context.Context, cfg config, m *meter, scratch string, root rootfs) (result []networked, err error) {
	ns, renew, remove, err := netPair(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", netHost+":0")
	if err != nil {
		return nil, fmt.Errorf("listen for the program: %w", err)
	}
	defer l.Close()
	go netServe(l)
	port := l.Addr().(*net.TCPAddr).Port
	args := []string{"python3", "-c", netProgram, netHost, strconv.Itoa(port), strconv.Itoa(netBytes), strconv.Itoa(netTries), strconv.Itoa(netCrowd)}
	sandboxed := &oci{binary: cfg.runsc, scratch: scratch, group: m.inside, pids: sentryPIDs, global: []string{"--network=sandbox", "--overlay2=none"}, netns: "/run/netns/" + ns}
	all := []contender{
		{name: "plain", command: plain},
		{name: "runsc", command: sandboxed.command, missing: lookup(cfg.runsc)},
		{name: "silk", missing: lookup(cfg.silk), command: func(ctx context.Context, img rootfs, args []string) (*exec.Cmd, func() error, error) {
			c := cmd(ctx, cfg.silk, append([]string{"run", "-p", img.tag, "--net", fmt.Sprintf("tcp:%s:%d", netHost, port), "--"}, args...)...)
			c.Env = append(os.Environ(), "SILK_HOME="+cfg.home)
			return c, nil, nil
		}},
	}
	type said struct{ Down, Up, Connect, Lost float64 }
	samples := make([][]said, len(all))
	for round := range netRounds {
		for turn := range all {
			i := (turn + round) % len(all)
			if all[i].missing != nil {
				continue
			}
			ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
			process, _, err := all[i].command(ctx, root, args)
			if err = errors.Join(err, renew()); err == nil {
				var stderr strings.Builder
				process.Stderr = &stderr
				var out []byte
				var s said
				if out, err = process.Output(); err == nil {
					err = json.Unmarshal(out, &s)
				}
				if err != nil {
					err = fmt.Errorf("%s: measure the network: %w: %s%s", all[i].name, err, out, lastLines(stderr.String()))
				}
				samples[i] = append(samples[i], s)
			}
			cancel()
			if err != nil {
				return nil, err
			}
		}
	}
	progress("network")
	for i, c := range all {
		var down, up, connect []float64
		n := networked{contender: c.name}
		for _, s := range samples[i] {
			down, up, connect = append(down, netBytes/s.Down), append(up, netBytes/s.Up), append(connect, s.Connect)
			n.lost += int(s.Lost)
		}
		if down == nil {
			continue
		}
		n.down, n.up, n.connect = median(down), median(up), time.Duration(median(connect)*float64(time.Second))
		result = append(result, n)
	}
	return result, nil
}

// idleWays is what one more sandbox with a way out costs the gateway's process while nothing happens, in bytes of its resident set.
func idleWays(ctx context.Context, executable string) (each int64, err error) {
	const count = 100
	g := process.New(func() (string, error) { return executable, nil }, egress.Limits{})
	defer func() { err = errors.Join(err, g.Close()) }()
	var ways []egress.Way
	defer func() {
		for _, w := range ways {
			err = errors.Join(err, w.Link.Close(), w.Wait(context.WithoutCancel(ctx)))
		}
	}()
	var first int64
	for i := range count + 1 {
		w, err := g.Open(egress.Order{ID: strconv.Itoa(i), Rules: []string{"example.org:443"}}, func(egress.Decision) {})
		if err != nil {
			return 0, err
		}
		ways = append(ways, w)
		if err := w.Ready(ctx); err != nil {
			return 0, err
		}
		if i == 0 {
			if first, err = resident(g.Pid()); err != nil {
				return 0, err
			}
		}
	}
	last, err := resident(g.Pid())
	return (last - first) / count, err
}

// network is what one contender was measured at; zero if it was not.
func (r report) network(name string) networked {
	for _, n := range r.networks {
		if n.contender == name {
			return n
		}
	}
	return networked{}
}

func (r report) writeNetwork(b *strings.Builder) {
	if len(r.networks) == 0 {
		return
	}
	fmt.Fprintf(b, "## The way out\n\n%d MB each way, and connections with one byte each way, to a server on this host, as a Python program sees it; median of %d. runsc sends frames into a\n"+
		"network namespace by a pair of devices, silk ends connections in its gateway (`--net tcp:...`). Lost are connections of %d at once.\n\n"+
		"| | to the sandbox, MB/s | x runsc | from it, MB/s | x runsc | connect, us | lost |\n|---|---:|---:|---:|---:|---:|---:|\n", netBytes/1_000_000, netRounds, netCrowd)
	runsc := r.network("runsc")
	for _, n := range r.networks {
		fmt.Fprintf(b, "| %s | %.0f | %.2f | %.0f | %.2f | %d | %d |\n", n.contender, n.down/1e6, n.down/runsc.down, n.up/1e6, n.up/runsc.up, n.connect.Microseconds(), n.lost)
	}
	fmt.Fprintf(b, "\nOne more idle sandbox costs the gateway's process %d KiB.\n\n", r.idleWay>>10)
}

func (r report) networkTargets() (all []target) {
	silk, runsc := r.network("silk"), r.network("runsc")
	if silk.down > 0 && runsc.down > 0 {
		all = append(all,
			target{"a sandbox takes 200 MB, time, x runsc with a pair of devices", 2, runsc.down / silk.down, ""},
			target{"a sandbox sends 200 MB, time, x runsc with a pair of devices", 2, runsc.up / silk.up, ""},
		)
	}
	if r.idleWay > 0 {
		all = append(all, target{"an idle sandbox's way out, memory of the gateway", 2, mib(r.idleWay), " MiB"})
	}
	return all
}
