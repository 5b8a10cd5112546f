package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/store/storetest"
)

// TestServersShareADatabase: two servers with real sandboxes, one of which is killed. The password that the address has is
// printed nowhere.
func TestServersShareADatabase(t *testing.T) {
	address := strings.Replace(storetest.Database(t), "silk@", "silk:hunter2hunter2@", 1) // which this server does not ask for
	file := filepath.Join(t.TempDir(), "address")
	if err := os.WriteFile(file, []byte(address+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := newServer(t, "  database_file: "+file+"\n"), newServer(t, "  database_file: "+file+"\n")
	a.start()
	b.start()
	silk := func(s *server, args ...string) string {
		t.Helper()
		out, err := s.Command(t.Context(), args...).CombinedOutput()
		if err != nil {
			t.Errorf("silk %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	silk(a, "token", "new", "laptop")
	if out := silk(b, "token", "ls"); !strings.Contains(out, "laptop") {
		t.Errorf("the other server's tokens: %s", out)
	}
	done := a.shell("echo hello; head -c 100000 /dev/zero | tr '\\0' x >&2; echo made > made")
	if out := a.outcome(done.ID); out.Kind != "ok" {
		t.Fatalf("%+v", out)
	}
	if text, err := b.try("GET", "/v1/runs/"+done.ID+"/output/stdout", ""); err != nil || string(text) != "hello\n" {
		t.Errorf("at the other server stdout is %q, %v", text, err)
	}
	for _, path := range []string{"/output/stderr", "/artifact?path=made"} {
		if text, err := b.try("GET", "/v1/runs/"+done.ID+path, ""); err == nil || !strings.Contains(err.Error(), "409") {
			t.Errorf("at the other server %s is %d bytes, %v", path, len(text), err)
		}
	}
	long := a.shell("echo up; sleep 60")
	if err := a.frames(long.ID, func(f api.Frame) bool { return f.Type == api.FrameOutput }); err != nil {
		t.Fatal(err)
	}
	if _, err := b.try("GET", "/v1/runs/"+long.ID+"/stream", ""); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("its stream at the other server: %v", err)
	}
	if err := b.stop(syscall.SIGTERM); err != nil {
		t.Errorf("silk serve: %v: %s", err, b.log)
	}
	b.start() // and takes nothing of the other one for lost
	if got := decodeAs[api.Run](b, "GET", "/v1/runs/"+long.ID, ""); got.State != api.StateRunning {
		t.Errorf("the server that starts ends it: %+v", got)
	}
	a.stop(syscall.SIGKILL) // nobody comes back
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		got := decodeAs[api.Run](b, "GET", "/v1/runs/"+long.ID, "")
		if got.State == api.StateEnded {
			if got.Outcome == nil || got.Outcome.Kind != "error" || !strings.Contains(got.Outcome.Message, "host restarted") {
				t.Errorf("it ended as %+v", got.Outcome)
			}
			break
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatal("the run of a server that is dead does not end")
		}
	}
	verify := b.Command(t.Context(), "audit", "verify")
	verify.Path = filepath.Join(filepath.Dir(verify.Path), "silk-server") // the same command, with the shared database
	if out, err := verify.CombinedOutput(); err != nil || !strings.Contains(string(out), "the audit trail is whole") {
		t.Errorf("%v: %s", err, out)
	}
	for _, s := range []*server{a, b} {
		if strings.Contains(s.log.String(), "hunter2") {
			t.Errorf("the password is in the log: %s", s.log)
		}
	}
}
