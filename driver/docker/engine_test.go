package docker

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// engineSaying is an engine that answers every call alike.
func engineSaying(t *testing.T, status int, body string) *engine {
	t.Helper()
	return engineThat(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
}

// engineThat answers as it likes.
func engineThat(t *testing.T, answer http.HandlerFunc) *engine {
	t.Helper()
	dir, err := os.MkdirTemp("", "") // short, as paths of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: answer}
	go server.Serve(l) //nolint:errcheck // ends with Close
	t.Cleanup(func() { server.Close() })
	e, err := newEngine("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEngineErrorsAreNamed(t *testing.T) {
	ctx := context.Background()
	for _, test := range []struct {
		name   string
		status int
		body   string
		call   func(*engine) error
		is     error
		says   string
	}{
		{"no such image", 404, `{"message":"No such image: x"}`, func(e *engine) error { _, err := e.create(ctx, "n", container{}); return err }, errNotFound, "No such image: x"},
		{"a name that is taken", 409, `{"message":"Conflict. The container name is in use"}`, func(e *engine) error { _, err := e.create(ctx, "n", container{}); return err }, errConflict, "in use"},
		{"a runtime that fails", 400, `{"message":"OCI runtime create failed"}`, func(e *engine) error { return e.start(ctx, "n") }, nil, "OCI runtime create failed"},
		{"an answer without words", 500, ``, func(e *engine) error { return e.start(ctx, "n") }, nil, "500"},
		{"limits that are not held", 201, `{"Id":"i","Warnings":["no swap limit"]}`, func(e *engine) error { _, err := e.create(ctx, "n", container{}); return err }, nil, "no swap limit"},
		{"an image that cannot be loaded", 200, `{"stream":"x"}{"error":"no space left"}`, func(e *engine) error { return e.load(ctx, strings.NewReader("")) }, nil, "no space left"},
		{"half an answer", 200, `{"Id":`, func(e *engine) error { _, err := e.look(ctx, "n"); return err }, ErrGone, "look"},
		{"another image than asked for", 200, `{"Id":"sha256:2"}`, func(e *engine) error { _, err := e.hasImage(ctx, "sha256:1"); return err }, nil, "answers with sha256:2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.call(engineSaying(t, test.status, test.body))
			if err == nil || test.is != nil && !errors.Is(err, test.is) || test.says != "look" && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %v and %q", err, test.is, test.says)
			}
		})
	}
	if err := engineSaying(t, 404, `{"message":"No such container"}`).remove(ctx, "n"); err != nil {
		t.Errorf("what is gone is as good as removed: %v", err)
	}
	if there, err := engineSaying(t, 404, `{}`).hasImage(ctx, "sha256:1"); there || err != nil {
		t.Errorf("hasImage() = %t, %v", there, err)
	}
}

// TestRemovalOfTwo: somebody else removes the container already, which takes its time.
func TestRemovalOfTwo(t *testing.T) {
	looks := 0
	e := engineThat(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"message":"removal of container n is already in progress"}`))
		case looks < 3:
			looks++
			_, _ = w.Write([]byte(`{"State":{"Status":"removing"}}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	if err := e.remove(t.Context(), "n"); err != nil || looks != 3 {
		t.Errorf("%v after %d looks", err, looks)
	}
	forever := engineSaying(t, http.StatusConflict, `{"message":"removal of container n is already in progress"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := forever.remove(ctx, "n"); !errors.Is(err, errConflict) {
		t.Errorf("of one that is never removed: %v", err)
	}
}

func TestEngineThatIsNotThere(t *testing.T) {
	e, err := newEngine("unix://" + filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.version(context.Background()); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "start Docker") {
		t.Errorf("%v, want ErrGone and what to do", err)
	}
	for _, host := range []string{"", "tcp://1.2.3.4:2375", "unix://relative", "unix:///" + strings.Repeat("x", 120)} {
		if _, err := newEngine(host); err == nil {
			t.Errorf("host %q was taken", host)
		}
	}
}

func TestEngineGivesUpWithItsCaller(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(enough)
	if _, err := engineSaying(t, 200, `{}`).version(ctx); !errors.Is(err, enough) {
		t.Errorf("%v, want the cause", err)
	}
}
