package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/oci"
)

// Where Docker Engine reads its configuration and listens, unless it is told otherwise.
const (
	daemonFile   = "/etc/docker/daemon.json"
	dockerSocket = "unix:///var/run/docker.sock"
)

// runtimeEntry is silk in the engine's list of runtimes.
const runtimeEntry = "silk"

// daemonRuntime is one entry of "runtimes" in daemon.json.
type daemonRuntime struct {
	Path string   `json:"path"`
	Args []string `json:"runtimeArgs"`
}

// registration is what this silk is registered as: by its own path, with the state and configuration that it was called with. Engines have another
// environment.
func (a *app) registration() (daemonRuntime, error) {
	exe, err := os.Executable()
	if err != nil {
		return daemonRuntime{}, err
	}
	entry := daemonRuntime{Path: exe, Args: []string{"runtime"}}
	for _, flag := range []struct{ name, value string }{
		{"--home", or(a.homeFlag, a.env("SILK_HOME"))}, {"--config", or(a.configFlag, a.env("SILK_CONFIG"))},
	} {
		if flag.value == "" {
			continue
		}
		path, err := filepath.Abs(flag.value)
		if err != nil {
			return daemonRuntime{}, err
		}
		entry.Args = append(entry.Args, flag.name, path)
	}
	return entry, nil
}

// addRuntime puts an entry into the text of a daemon.json, and changes nothing else that it says.
func addRuntime(text []byte, entry daemonRuntime) ([]byte, error) {
	all := map[string]json.RawMessage{}
	runtimes := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(text)) > 0 {
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, err
		}
	}
	if old, ok := all["runtimes"]; ok {
		if err := json.Unmarshal(old, &runtimes); err != nil {
			return nil, fmt.Errorf("runtimes: %w", err)
		}
	}
	var err error
	if runtimes[runtimeEntry], err = json.Marshal(entry); err != nil {
		return nil, err
	}
	if all["runtimes"], err = json.Marshal(runtimes); err != nil {
		return nil, err
	}
	out, err := json.MarshalIndent(all, "", "  ")
	return append(out, '\n'), err
}

// writeRuntime registers this silk in the engine's file.
func (a *app) writeRuntime(file string, entry daemonRuntime) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the engine's configuration: %w", err)
	}
	text, err = addRuntime(text, entry)
	if err != nil {
		return usagef("%s cannot be read: %v", file, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("write the engine's configuration: %w", err)
	}
	return atomicfile.Write(file, text, 0o644)
}

// engineInfo is what an engine says of itself at /info.
type engineInfo struct {
	ServerVersion, CgroupDriver string
	Runtimes                    map[string]json.RawMessage
}

// dockerFacts says whether the engine at address can use this silk as its runtime, and has it run a container.
func (a *app) dockerFacts(address string, entry daemonRuntime) []fact {
	socket, ok := strings.CutPrefix(address, "unix://")
	if !ok {
		return []fact{{"Docker Engine", factNo, fmt.Sprintf("%s is no socket of this machine (unix:///...)", address)}}
	}
	e := dockerEngine{&http.Client{Timeout: probeLimit, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
	lines, _ := json.Marshal(map[string]any{"runtimes": map[string]daemonRuntime{runtimeEntry: entry}}) // two texts and a list
	var info engineInfo
	if err := e.call(a.ctx, http.MethodGet, "/info", nil, &info); err != nil {
		return []fact{{"Docker Engine", factNo, err.Error()}, {"runtime " + runtimeEntry, factUnknown, fmt.Sprintf("into %s, which --write does: %s", daemonFile, lines)}}
	}
	facts := []fact{{"Docker Engine", factYes, fmt.Sprintf("%s at %s", info.ServerVersion, address)}}
	if info.CgroupDriver != "cgroupfs" {
		facts = append(facts, fact{"cgroup driver", factNo, fmt.Sprintf(`%s; containers of silk's need "exec-opts": ["native.cgroupdriver=cgroupfs"] in the engine's configuration`, info.CgroupDriver)})
	} else {
		facts = append(facts, fact{"cgroup driver", factYes, info.CgroupDriver})
	}
	if _, ok := info.Runtimes[runtimeEntry]; !ok {
		return append(facts, fact{"runtime " + runtimeEntry, factNo, fmt.Sprintf("the engine does not know it; into %s, which --write does, and SIGHUP to the engine: %s", daemonFile, lines)})
	}
	facts = append(facts, fact{"runtime " + runtimeEntry, factYes, "the engine knows it"})
	start := time.Now()
	said, err := e.probe(a.ctx)
	if err != nil {
		return append(facts, fact{"a container of it", factNo, err.Error()})
	}
	return append(facts, fact{"a container of it", factYes, fmt.Sprintf("%s; it took %s", said, time.Since(start).Round(time.Millisecond))})
}

// dockerEngine speaks the Engine API, as far as a probe needs it.
type dockerEngine struct{ client *http.Client }

// maxAnswer bounds an answer.
const maxAnswer = 4 << 20

func (e dockerEngine) do(ctx context.Context, method, path string, body io.Reader, kind string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, body)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode >= 300 {
		var said struct{ Message string }
		_ = json.Unmarshal(answer, &said) // else it is as it is
		err = fmt.Errorf("%s %s: the engine says: %s", method, path, cmp.Or(said.Message, resp.Status))
	}
	return answer, err
}

// call is do with JSON.
func (e dockerEngine) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	kind := ""
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body, kind = bytes.NewReader(data), "application/json"
	}
	answer, err := e.do(ctx, method, path, body, kind)
	if err == nil && out != nil {
		err = json.Unmarshal(answer, out)
	}
	return err
}

// noProgram is what the probe's container runs: nothing has it, and only silk says so on the program's behalf and lets the container end
// by itself. So the image needs no program, and another runtime cannot pass for silk.
const noProgram = "/silk-doctor"

// probe has the engine make an image with one empty file, and run a container of it.
func (e dockerEngine) probe(ctx context.Context) (said string, err error) {
	name := fmt.Sprintf("silk-doctor-%d", os.Getpid())
	undo := func(path string) {
		if _, undoErr := e.do(context.WithoutCancel(ctx), http.MethodDelete, path, nil, ""); undoErr != nil {
			err = errors.Join(err, undoErr)
		}
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "etc/silk-doctor", Mode: 0o644, Typeflag: tar.TypeReg}), w.Close()); err != nil {
		return "", err
	}
	if _, err := e.do(ctx, http.MethodPost, "/images/create?"+url.Values{"fromSrc": {"-"}, "repo": {name}}.Encode(), &archive, "application/x-tar"); err != nil {
		return "", err
	}
	defer undo("/images/" + name)
	container := map[string]any{
		"Image": name, "Cmd": []string{noProgram}, "NetworkDisabled": true, "Tty": false,
		"HostConfig": map[string]any{"Runtime": runtimeEntry, "NetworkMode": "none", "LogConfig": map[string]string{"Type": "json-file"}},
	}
	if err := e.call(ctx, http.MethodPost, "/containers/create?name="+name, container, nil); err != nil {
		return "", err
	}
	defer undo("/containers/" + name + "?force=1")
	if err := e.call(ctx, http.MethodPost, "/containers/"+name+"/start", nil, nil); err != nil {
		return "", err
	}
	var ended struct{ StatusCode int }
	if err := e.call(ctx, http.MethodPost, "/containers/"+name+"/wait", nil, &ended); err != nil {
		return "", err
	}
	output, err := e.do(ctx, http.MethodGet, "/containers/"+name+"/logs?stderr=1", nil, "")
	if err != nil {
		return "", err
	}
	want := "silk: " + noProgram + ": command not found"
	if ended.StatusCode != 127 || !bytes.Contains(output, []byte(want)) {
		return "", fmt.Errorf("the container ended with %d and %q, where silk ends with 127 and %q", ended.StatusCode, output, want)
	}
	return "silk ran one, under profile " + oci.DefaultProfile, nil
}

// doctorDocker is `silk doctor --docker`.
func (a *app) doctorDocker(file string, writes bool) error {
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	entry, err := a.registration()
	if err != nil {
		return err
	}
	if writes {
		if err := a.writeRuntime(file, entry); err != nil {
			return err
		}
		a.errorf("wrote %s; the engine reads it at SIGHUP (systemctl reload docker) and at its start", file)
	}
	done := a.busy("asking the engine")
	facts := a.dockerFacts(cmp.Or(a.dockerHost(c), dockerSocket), entry)
	done()
	if err := a.printFacts(facts); err != nil {
		return err
	}
	if slices.ContainsFunc(facts, func(f fact) bool { return f.State != factYes }) {
		return findingf("containers cannot run in silk's sandbox until what is no above is repaired")
	}
	return nil
}
