package docker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// engine speaks the Docker Engine API over a unix socket: the eight calls that the driver makes, without a library, because the one
// that there is links a tracing framework, which would make silk start 5 ms later. Safe for concurrent use.
type engine struct {
	socket string
	client *http.Client
}

// Errors of an engine.
var (
	// ErrGone is wrapped by errors of calls that nobody answered: the engine is not there, or has gone in the middle.
	ErrGone = errors.New("the Docker Engine does not answer")

	errNotFound = errors.New("the engine has no such thing")
	errConflict = errors.New("the engine has another of that name, or is busy with it")
)

// callTimeout bounds a call of the API. A start takes half a second; a busy machine took twenty.
const callTimeout = 60 * time.Second

// maxAnswerBytes bounds what is read of an answer.
const maxAnswerBytes = 4 << 20

// newEngine takes a host as DOCKER_HOST spells it. Other hosts than this one would not see the files that a run hands over.
func newEngine(host string) (*engine, error) {
	socket, ok := strings.CutPrefix(host, "unix://")
	if !ok || !strings.HasPrefix(socket, "/") {
		return nil, fmt.Errorf("docker: host is %q: it must be a socket of this machine, unix:///var/run/docker.sock", host)
	}
	if len(socket) > 107 { // sun_path, unix(7)
		return nil, fmt.Errorf("docker: host is %q: the path of a socket has 107 bytes at most", host)
	}
	var dialer net.Dialer
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true, // another connection to a socket of this machine costs nothing, and none is left
	}
	return &engine{socket: socket, client: &http.Client{Transport: transport}}, nil
}

// key tells engines of this machine apart, in names of files. /run has two names.
func (e *engine) key() string {
	dir, name := filepath.Split(e.socket)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	sum := sha256.Sum256([]byte(filepath.Join(dir, name)))
	return hex.EncodeToString(sum[:8])
}

// version is what an engine says of itself.
type version struct {
	Version    string
	APIVersion string `json:"ApiVersion"`
	Os, Arch   string
}

func (e *engine) version(ctx context.Context) (v version, err error) {
	return v, e.call(ctx, http.MethodGet, "/version", nil, nil, &v)
}

// hasImage says whether there is an image with that id.
func (e *engine) hasImage(ctx context.Context, id string) (bool, error) {
	var image struct {
		ID string `json:"Id"`
	}
	err := e.call(ctx, http.MethodGet, "/images/"+id+"/json", nil, nil, &image)
	if errors.Is(err, errNotFound) {
		return false, nil
	}
	if err == nil && image.ID != id {
		err = fmt.Errorf("ask for image %s: the engine answers with %s", id, image.ID)
	}
	return err == nil, err
}

// load sends an archive of images.
func (e *engine) load(ctx context.Context, archive io.Reader) error {
	body, err := e.do(ctx, http.MethodPost, "/images/load", url.Values{"quiet": {"1"}}, archive, "application/x-tar")
	if err != nil {
		return err
	}
	defer body.Close()
	for lines := json.NewDecoder(io.LimitReader(body, maxAnswerBytes)); ; {
		var line struct{ Error string }
		err := lines.Decode(&line)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("load an image: read the engine's answer: %w", e.gone(err))
		case line.Error != "":
			return fmt.Errorf("load an image: the engine says: %s", line.Error)
		}
	}
}

// create makes a container that does not run. Its warnings are about limits that the host cannot hold, so they are errors.
func (e *engine) create(ctx context.Context, name string, c container) (id string, err error) {
	var made struct {
		ID       string `json:"Id"`
		Warnings []string
	}
	if err := e.call(ctx, http.MethodPost, "/containers/create", url.Values{"name": {name}}, c, &made); err != nil {
		return "", err
	}
	if len(made.Warnings) > 0 {
		return made.ID, fmt.Errorf("the engine cannot hold what is asked: %s", strings.Join(made.Warnings, "; "))
	}
	return made.ID, nil
}

func (e *engine) start(ctx context.Context, name string) error {
	return e.call(ctx, http.MethodPost, "/containers/"+name+"/start", nil, nil, nil)
}

// runtimes are the OCI runtimes that the engine knows, by name.
func (e *engine) runtimes(ctx context.Context) (map[string]json.RawMessage, error) {
	var info struct{ Runtimes map[string]json.RawMessage }
	err := e.call(ctx, http.MethodGet, "/info", nil, nil, &info)
	return info.Runtimes, err
}

// state is what the engine knows of a container.
type state struct {
	Status    string
	Pid       int
	OOMKilled bool
	ExitCode  int
	Error     string
}

// looked is what the engine has of a container.
type looked struct {
	State  state
	Config struct{ Labels map[string]string }
}

func (e *engine) look(ctx context.Context, name string) (c looked, err error) {
	return c, e.call(ctx, http.MethodGet, "/containers/"+name+"/json", nil, nil, &c)
}

// remove ends a container and removes it. One that is not there, or that somebody else removes, is as good as removed.
func (e *engine) remove(ctx context.Context, name string) error {
	err := e.call(ctx, http.MethodDelete, "/containers/"+name, url.Values{"force": {"1"}, "v": {"1"}}, nil, nil)
	for errors.Is(err, errConflict) { // somebody else's removal is under way
		_, looked := e.look(ctx, name)
		if errors.Is(looked, errNotFound) {
			return nil
		}
		select {
		case <-time.After(removalInterval):
		case <-ctx.Done():
			return err
		}
	}
	if errors.Is(err, errNotFound) {
		return nil
	}
	return err
}

// removalInterval is the time between looks at a container that somebody else removes: the engine tells of its end, but only whoever listened before.
const removalInterval = 20 * time.Millisecond

// unpause lets the processes of a container go on. One that is not paused is an error.
func (e *engine) unpause(ctx context.Context, name string) error {
	return e.call(ctx, http.MethodPost, "/containers/"+name+"/unpause", nil, nil, nil)
}

// removal is the same as [engine.remove] in the bytes of HTTP, for the reaper.
func removal(name string) string {
	return "DELETE /containers/" + name + "?force=1&v=1 HTTP/1.0\r\nHost: docker\r\n\r\n"
}

// listed is a container in a list.
type listed struct {
	Names  []string
	Labels map[string]string
	State  string
}

// list names the containers that have a label, the ended ones too.
func (e *engine) list(ctx context.Context, label string) (all []listed, err error) {
	filters, err := json.Marshal(map[string][]string{"label": {label}})
	if err != nil {
		return nil, err
	}
	return all, e.call(ctx, http.MethodGet, "/containers/json", url.Values{"all": {"1"}, "filters": {string(filters)}}, nil, &all)
}

// call makes one call. in and out are JSON; nil for none.
func (e *engine) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	var body io.Reader
	kind := ""
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("ask the engine: %w", err)
		}
		body, kind = bytes.NewReader(b), "application/json"
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := e.do(ctx, method, path, query, body, kind)
	if err != nil {
		return err
	}
	defer answer.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(answer, maxAnswerBytes))
	} else {
		err = json.NewDecoder(io.LimitReader(answer, maxAnswerBytes)).Decode(out)
	}
	if err != nil {
		return fmt.Errorf("ask the engine to %s %s: read its answer: %w", method, path, e.gone(err))
	}
	return nil
}

// do is the exchange. The caller closes the body.
func (e *engine) do(ctx context.Context, method, path string, query url.Values, body io.Reader, kind string) (io.ReadCloser, error) {
	target := url.URL{Scheme: "http", Host: "docker", Path: path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("ask the engine: %w", err)
	}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	answer, err := e.client.Do(request)
	if err != nil {
		var where *url.Error
		if errors.As(err, &where) { // its text has the whole address
			err = where.Err
		}
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
			return nil, cause
		}
		return nil, fmt.Errorf("ask the engine to %s %s: %w", method, path, e.gone(err))
	}
	if answer.StatusCode < 400 {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	said := struct{ Message string }{answer.Status}
	if text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10)); err == nil {
		_ = json.Unmarshal(text, &said) // else the status says it
	}
	err = errors.New(strings.TrimSpace(said.Message))
	switch answer.StatusCode {
	case http.StatusNotFound:
		err = fmt.Errorf("%w: %w", errNotFound, err)
	case http.StatusConflict:
		err = fmt.Errorf("%w: %w", errConflict, err)
	}
	return nil, fmt.Errorf("ask the engine to %s %s: %w", method, path, err)
}

// gone says of an error of the connection that the engine does not answer, and why.
func (e *engine) gone(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: nobody listens on %s: start Docker, or name its socket in the configuration (docker: {host: unix:///...})", ErrGone, e.socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %s may not be used by this user", ErrGone, e.socket)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w in time", ErrGone)
	}
	return fmt.Errorf("%w: %w", ErrGone, err)
}
