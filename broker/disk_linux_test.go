package broker

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// A full disk ends the log, is said once, and takes nothing from the run or from viewers that keep up.
func TestFullDisk(t *testing.T) {
	dir := testenv.SmallDisk(t, "256k")
	var said bytes.Buffer
	b := newBroker(t, func(c *Config) { c.Dir, c.Logger = dir, slog.New(slog.NewTextHandler(&said, nil)) })
	s := open(t, b, "r", Limits{RingBytes: 64 << 10})
	keepsUp, slow := view(t, b, "r", Cursor{}), view(t, b, "r", Cursor{})
	var all []byte
	var got output
	for i := range 1000 {
		p := append(bytes.Repeat([]byte{byte('a' + i%26)}, 999), '\n')
		s.Output("stdout", int64(len(all)), uint64(i+1), 0, p)
		all = append(all, p...)
		frames, _ := drain(t, keepsUp)
		for _, f := range frames {
			got.take(t, f)
		}
	}
	s.End(api.Outcome{})
	got.check(t, stdout, all)
	if got.lost[stdout] > 0 {
		t.Errorf("a viewer that keeps up has lost %d bytes", got.lost[stdout])
	}
	frames, _ := drain(t, slow)
	o := collect(t, frames)
	o.check(t, stdout, all)
	kept, err := RecoverOutput(dir, "r")
	if err != nil || kept.Torn || !bytes.HasPrefix(all, kept.Stdout) || len(kept.Stdout) < 200<<10 {
		t.Errorf("the log has %d bytes, torn %t, %v", len(kept.Stdout), kept.Torn, err)
	}
	want := int64(len(all)-len(kept.Stdout)) - 64<<10 // some of which is not payload
	if o.lost[stdout] < want || o.lost[stdout] > want+16<<10 {
		t.Errorf("a slow viewer has lost %d bytes, want about %d", o.lost[stdout], want)
	}
	if n := strings.Count(said.String(), "\n"); n != 1 || !strings.Contains(said.String(), "no space left") || strings.Contains(said.String(), "aaaa") {
		t.Errorf("said:\n%s", said.String())
	}
	if got := b.Stats().LogFaults; got != 1 {
		t.Errorf("%d faults of logs", got)
	}
}

// There is not even room for the first record.
func TestNoDiskAtAll(t *testing.T) {
	dir := testenv.SmallDisk(t, "4k")
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 4096), 0o600); err == nil {
		t.Log("the disk takes a page besides its root")
	}
	b := newBroker(t, func(c *Config) { c.Dir = dir })
	s := open(t, b, "r", Limits{})
	v := view(t, b, "r", Cursor{})
	s.Output("stdout", 0, 1, 0, []byte("a\n"))
	s.End(api.Outcome{})
	frames, _ := drain(t, v)
	collect(t, frames).check(t, stdout, []byte("a\n"))
	if got := b.Stats().LogFaults; got != 1 {
		t.Errorf("%d faults of logs", got)
	}
	if _, err := os.Stat(LogFile(dir, "r")); err == nil {
		t.Error("a log without content is left, and the run could not be opened again")
	}
}
