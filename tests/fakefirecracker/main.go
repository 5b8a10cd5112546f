// Fakefirecracker takes Firecracker's place in tests where there is no KVM: its command line, its API, and a machine that QEMU emulates, so that a
// driver is held to what Firecracker takes and still gets a real kernel. It holds every request against package schema, refuses what comes in a wrong
// order, finds files in its working directory, which is its jail, and connects calls of the guest's with the sockets there as Firecracker does.
//
// What goes wrong it does when the machine's id begins so:
//
//	refuses-  the entropy device is refused
//	silent-   the machine never does anything
//	panics-   the guest's kernel finds no init
//
// and at SIGUSR1 it ends as Firecracker does when its own filter forbids a call.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/silk-sandbox/silk/driver/firecracker/api/schema"
)

const version = "1.16.1"

// badSyscall is the status that Firecracker ends with when its filter forbids a call.
const badSyscall = 148

func main() {
	o, err := parse(os.Args[1:])
	status := 0
	if err == nil && o["version"] == "" {
		status, err = serve(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "firecracker:", err)
		status = 1
	}
	os.Exit(status)
}

func parse(args []string) (map[string]string, error) {
	if len(args) == 1 && args[0] == "--version" {
		fmt.Println("Firecracker v" + version)
		return map[string]string{"version": version}, nil
	}
	o := map[string]string{}
	for ; len(args) > 0; args = args[2:] {
		name, ok := strings.CutPrefix(args[0], "--")
		switch name {
		case "id", "api-sock", "start-time-us", "start-time-cpu-us":
		default:
			ok = false
		}
		if !ok || len(args) < 2 || o[name] != "" {
			return nil, fmt.Errorf("arguments parsing error: %q", args[0])
		}
		o[name] = args[1]
	}
	if o["id"] == "" || o["api-sock"] == "" || o["start-time-us"] == "" {
		return nil, fmt.Errorf("it was not started by a jailer")
	}
	return o, nil
}

// serve serves the API until the machine has ended, or something else ends this process, with that status.
func serve(o map[string]string) (status int, err error) {
	if os.Getuid() == 0 || os.Getgid() == 0 {
		return 1, fmt.Errorf("it is root")
	}
	bad := make(chan os.Signal, 1)
	signal.Notify(bad, syscall.SIGUSR1)
	l, err := net.Listen("unix", jailed(o["api-sock"]))
	if err != nil {
		return 1, fmt.Errorf("open the API socket: %w", err)
	}
	m := &machine{id: o["id"], ended: make(chan struct{})}
	server := &http.Server{Handler: m, ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return 1, err
	case <-bad:
		return badSyscall, nil
	case <-m.ended: // as Firecracker does when its guest restarts
		return 0, nil
	}
}

// jailed is a path in the jail, which is the working directory.
func jailed(path string) string { return "." + path }

// machine is the one of this process.
type machine struct {
	id    string
	ended chan struct{} // closed when it has

	mu      sync.Mutex
	running bool
	config  struct {
		VCPUs     int `json:"vcpu_count"`
		MemoryMiB int `json:"mem_size_mib"`
	}
	boot struct {
		Kernel  string `json:"kernel_image_path"`
		Initial string `json:"initrd_path"`
		Args    string `json:"boot_args"`
	}
	drives  []drive
	vsock   string
	entropy bool
}

type drive struct {
	ID   string `json:"drive_id"`
	Path string `json:"path_on_host"`
}

// ServeHTTP answers one request.
func (m *machine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	body, err := io.ReadAll(io.LimitReader(r.Body, 51200)) // Firecracker's bound
	if err == nil {
		err = schema.Check(r.Method, r.URL.Path, body)
	}
	var answer any
	if err == nil {
		answer, err = m.do(r.Method, r.URL.Path, body)
	}
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
		answer = map[string]string{"fault_message": err.Error()}
	case answer == nil:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (m *machine) do(method, path string, body []byte) (answer any, err error) {
	if method == "GET" {
		state := map[bool]string{false: "Not started", true: "Running"}[m.running]
		if path == "/version" {
			return map[string]string{"firecracker_version": version}, nil
		}
		return map[string]string{"id": m.id, "state": state, "app_name": "Firecracker", "vmm_version": version}, nil
	}
	if m.running {
		return nil, fmt.Errorf("the requested operation is not supported after starting the microVM")
	}
	switch what, _, _ := strings.Cut(path[1:], "/"); what {
	case "machine-config":
		return nil, json.Unmarshal(body, &m.config)
	case "boot-source":
		if err := json.Unmarshal(body, &m.boot); err != nil {
			return nil, err
		}
		return nil, readable(m.boot.Kernel, m.boot.Initial)
	case "drives":
		var d drive
		if err := json.Unmarshal(body, &d); err != nil {
			return nil, err
		}
		m.drives = append(m.drives, d)
		return nil, readable(d.Path)
	case "vsock":
		var v struct {
			Path string `json:"uds_path"`
		}
		err := json.Unmarshal(body, &v)
		m.vsock = v.Path
		return nil, err
	case "entropy":
		if strings.HasPrefix(m.id, "refuses-") {
			return nil, fmt.Errorf("could not create Entropy device: it is refused")
		}
		m.entropy = true
		return nil, nil
	case "actions":
		return nil, m.start()
	}
	return nil, fmt.Errorf("%s is not in this double", path)
}

// readable says whether the VMM can read files, and only that.
func readable(paths ...string) error {
	for _, p := range paths {
		f, err := os.Open(jailed(p))
		if err != nil {
			return err
		}
		f.Close()
		if f, err := os.OpenFile(jailed(p), os.O_WRONLY, 0); err == nil {
			f.Close()
			return fmt.Errorf("%s can be written to", p)
		}
	}
	return nil
}
