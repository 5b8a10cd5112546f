package firecracker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/image/imagetest"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/run"
)

// testImages are those of the test's store.
type testImages struct{ *image.Store }

func (s testImages) Open(_ context.Context, ref string) (run.Image, error) {
	img, err := s.Resolve(ref)
	if err != nil {
		return run.Image{}, err
	}
	meta, err := s.Meta(img)
	if err != nil {
		return run.Image{}, err
	}
	root, err := s.OpenRoot(img)
	return run.Image{Digest: img.Digest.String(), Root: root, Trees: meta.Trees}, err
}

// outcome runs a command in a machine, as every run of silk's.
func outcome(t *testing.T, d driver.Driver, limits profile.Limits, io run.IO, command ...string) run.Outcome {
	t.Helper()
	engine, err := run.New(run.Config{
		Home: t.TempDir(), Drivers: []driver.Driver{d}, Images: testImages{imagetest.Store(t)},
		Decide: func(req policy.Request) (policy.Plan, error) {
			prof, err := profile.NewSet().Lookup(req.Profile)
			if err != nil {
				return policy.Plan{}, err
			}
			return policy.Decide(req, prof, policy.Grants{})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}()
	o, err := engine.Run(t.Context(), policy.Request{Client: policy.ClientCLI, Profile: "lab:text", Args: command, Limits: limits, HasStdin: io.Stdin != nil}, io)
	if err != nil {
		t.Errorf("%v: %v", command, err)
	}
	return o
}

// remembering is a driver that remembers its last sandbox.
type remembering struct {
	*Driver
	last *sandbox
}

func (r *remembering) Start(ctx context.Context, spec driver.Spec) (driver.Sandbox, error) {
	s, err := r.Driver.Start(ctx, spec)
	r.last, _ = s.(*sandbox)
	return s, err
}

// checkAgent holds the agent to its size: what it takes is not the run's.
func checkAgent(t *testing.T, memory int64) {
	t.Helper()
	info, err := os.Stat(testenv.AgentPath())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the agent has %d bytes on disk, and %d in memory at most", info.Size(), memory)
	// It has taken 7.3 to 8.2 MiB, the more the busier the host is. A page of 2 MiB, or something that is kept, shows.
	if info.Size() > 3<<20 || memory == 0 || memory > 9<<20 {
		t.Error("want 3 MiB and 9 MiB at most")
	}
}

// testBytes are eight million bytes of every kind, the same ones each time.
func testBytes(t *testing.T) []byte {
	t.Helper()
	b := make([]byte, 8_000_000)
	if _, err := io.ReadFull(rand.NewChaCha8([32]byte{1}), b); err != nil {
		t.Fatal(err)
	}
	return b
}

// testOutcomes takes runs of each kind through a machine.
func testOutcomes(t *testing.T, newDriver func(t *testing.T) *Driver) {
	t.Run("eight million bytes in, out, and in a file", func(t *testing.T) {
		d := &remembering{Driver: newDriver(t)}
		testenv.NoLeaks(t)
		want, artifacts := testBytes(t), t.TempDir()
		var got bytes.Buffer
		o := outcome(t, d, profile.Limits{Timeout: time.Hour}, run.IO{
			Stdin: bytes.NewReader(want), Artifacts: artifacts, OmitText: true,
			OnFrame: func(f run.Frame) {
				if f.Channel != "stdout" || f.Offset != int64(got.Len()) {
					t.Errorf("%d bytes of %s at %d, after %d", len(f.Data), f.Channel, f.Offset, got.Len())
				}
				got.Write(f.Data)
			},
		}, "tee", "copy")
		if o.Kind != run.OK || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: %s; %d bytes arrived, want %d", o.Kind, o.Message, got.Len(), len(want))
		}
		if b, err := os.ReadFile(filepath.Join(artifacts, "copy")); err != nil || !bytes.Equal(b, want) {
			t.Errorf("the file has %d bytes, want %d; %v", len(b), len(want), err)
		}
		if d.last != nil {
			checkAgent(t, d.last.report.AgentBytes)
		}
	})
	if !everything() {
		return
	}
	for _, test := range []struct {
		name    string
		limits  profile.Limits
		command []string
		kind    run.Kind
		check   func(o run.Outcome) bool
	}{
		{"a status", profile.Limits{}, []string{"sh", "-c", "exit 7"}, run.Failed, func(o run.Outcome) bool { return o.ExitCode != nil && *o.ExitCode == 7 }},
		{"beyond its time", profile.Limits{Timeout: 5 * time.Second}, []string{"sh", "-c", "while :; do :; done"}, run.Timeout, nil},
		{"beyond its memory", profile.Limits{MemoryBytes: 64 << 20}, []string{"sh", "-c", "head -c 200000000 /dev/zero | tail -n 1 | wc -c"}, run.OOM, nil},
		{"beyond its output", profile.Limits{OutputBytes: 1000}, []string{"sh", "-c", "yes 0123456789 | head -c 100000"}, run.OK, func(o run.Outcome) bool {
			sum := sha256.Sum256(bytes.Repeat([]byte("0123456789\n"), 10_000)[:100_000])
			return o.Stdout.Truncated && o.Stdout.Bytes == 100_000 && o.Stdout.SHA256 == hex.EncodeToString(sum[:]) && o.Flags["output_truncated"] > 0
		}},
		{"what no program may", profile.Limits{}, []string{"sh", "-c", "echo before; cat /etc/passwd; echo after"}, run.Violated, func(o run.Outcome) bool {
			return o.Rule == "file.accounts" && o.Stdout.Text != nil && *o.Stdout.Text == "before\n" && len(o.Events) > 0
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDriver(t)
			testenv.NoLeaks(t)
			if test.limits.Timeout == 0 {
				test.limits.Timeout = time.Hour
			}
			o := outcome(t, d, test.limits, run.IO{}, test.command...)
			if o.Kind != test.kind || test.check != nil && !test.check(o) {
				t.Errorf("got %+v (%s), want %s", o, o.Message, test.kind)
			}
		})
	}
}

// What comes of a run is right whatever happens in the machine, and no byte is another.
func TestOutcomes(t *testing.T) { testOutcomes(t, newDriver) }

func TestJailedOutcomes(t *testing.T) {
	if everything() {
		testOutcomes(t, func(t *testing.T) *Driver { return newJailedDriver(t, nil) })
	}
}
