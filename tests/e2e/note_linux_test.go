package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// vault is a folder with one note.
type vault struct {
	silk
	*testing.T
	dir, note string
	flags     []string
}

// newVault copies text into a note of a new vault.
func newVault(t *testing.T, text string, images ...string) vault {
	t.Helper()
	testenv.Require(t, testenv.Sentry)
	v := vault{silk: newSilk(t, images...), T: t, dir: t.TempDir()}
	v.note = filepath.Join(v.dir, "Tour ä 노트.md") // R19: a name beyond ASCII
	if err := errors.Join(os.Mkdir(filepath.Join(v.dir, ".obsidian"), 0o755), put(v.note, text)); err != nil {
		t.Fatal(err)
	}
	return v
}

// verb is silk note VERB, and its exit status.
func (v vault) verb(args ...string) (stdout, stderr string, status int) {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.Context(), 3*time.Minute)
	defer cancel()
	cmd := v.Command(ctx, slices.Concat(v.flags, []string{"note"}, args)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		v.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (v vault) text() string {
	v.Helper()
	text, err := os.ReadFile(v.note)
	if err != nil {
		v.Fatal(err)
	}
	return string(text)
}

// handoffs are those that were handed on, as silk handoffs ls prints them.
func (v vault) handoffs() string {
	v.Helper()
	out, err := v.Command(v.Context(), "handoffs", "ls", "--json", "--limit", "1000").Output()
	if err != nil {
		v.Fatal(err)
	}
	return string(out)
}

// changing are the parts of results that are others each time.
var changing = regexp.MustCompile(`( · [0-9.]+ (ms|s))?( · run |silk-|--run )[0-9A-Z]{26}`)

// TestTour runs all blocks of the example vault, twice, then without times and ids, twice, and takes everything away again.
func TestTour(t *testing.T) {
	tour, err := os.ReadFile("../../examples/vault/Tour.md")
	if err != nil {
		t.Fatal(err)
	}
	v := newVault(t, string(tour), "lab:text", "lab:python", "lab:node")
	run := func(args ...string) string {
		t.Helper()
		if _, stderr, status := v.verb(append([]string{"run", v.note, "--all"}, args...)...); status != 1 { // of the first one that fails
			t.Fatalf("exit status %d: %s", status, stderr)
		}
		return v.text()
	}
	first := run()
	for _, want := range []string{
		"```\n> [!quote]- silk-sandbox output · ok · exit 0 · ", "> 3  the\n", "/figure-1.png]]\n", "   > [!quote]- silk-sandbox output · ok", "   >> [!widow-red] stderr\n   >> ```text\n",
		"> ```\n> > [!quote]- silk-sandbox output · ok", "> > progress bars show their last state\n", "> [!danger] silk-sandbox output · failed · exit 1 · ", ">> ZeroDivisionError: division by zero\n",
		"> [!danger] silk-sandbox output · violated · file.accounts · ", "> ```log\n> violation file.accounts openat /etc/passwd\n> ```\n", "> ~~~text\n> ```\n> > [!danger] not a callout\n",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("the note has no %q:\n%s", want, first)
		}
	}
	// Lines that are gone or new are results: what else there was is still there, in its order.
	if rest := slices.DeleteFunc(strings.Split(first, "\n"), func(l string) bool { return !slices.Contains(strings.Split(string(tour), "\n"), l) }); len(rest) < len(strings.Split(string(tour), "\n")) {
		t.Errorf("lines of the note are gone: %d", len(rest))
	}
	pictures := func() []string {
		found, err := filepath.Glob(filepath.Join(v.dir, "attachments/*/*.png"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if got := pictures(); len(got) != 1 {
		t.Errorf("pictures %v", got)
	}
	second := run()
	if diff := cmp.Diff(changing.ReplaceAllString(first, "X"), changing.ReplaceAllString(second, "X")); diff != "" || first == second {
		t.Errorf("the second time not only times and ids are others:\n%s", diff)
	}
	if got := pictures(); len(got) != 1 {
		t.Errorf("the picture of the result before is still there: %v", got)
	}
	if stable := run("--stable"); run("--stable") != stable {
		t.Error("with --stable the second time is another text")
	}
	before := v.text()
	stdout, _, _ := v.verb("run", v.note, "--block", "1", "--dry-run")
	if !strings.Contains(stdout, "\n-> [!quote]- silk-sandbox output · ok · exit 0\n+> [!quote]- silk-sandbox output · ok · exit 0 · ") || v.text() != before {
		t.Errorf("a dry run prints %s", stdout)
	}
	handed := v.handoffs()
	_, stderr, _ := v.verb("run", v.note, "--all", "--dry-run")
	if v.handoffs() != handed || handed == "[]\n" {
		t.Errorf("a dry run hands something on; before it was %s", handed)
	}
	ls, _, _ := v.verb("ls", v.note, "--json")
	for _, line := range regexp.MustCompile(`(?m):(\d+): `).FindAllStringSubmatch(stderr, -1) {
		if !strings.Contains(ls, `"line": `+line[1]+`,`) {
			t.Errorf("a dry run speaks of line %s, where no block is: %s", line[1], ls)
		}
	}
	if _, stderr, status := v.verb("clean", v.note, "--all"); status != 0 || v.text() != string(tour) || len(pictures()) != 0 {
		t.Errorf("clean: %d %s, pictures %v, note\n%s", status, stderr, pictures(), v.text())
	}
	if _, stderr, status := v.verb("run", v.note, "--block", "10"); status != 125 || !strings.Contains(stderr, "it says off") {
		t.Errorf("a block that says off: %d %s", status, stderr)
	}
}

// TestNoteChanges: what happens to a note while a block of it runs (R61).
func TestNoteChanges(t *testing.T) {
	const block = "```sh\ncat /proc/uptime >/dev/null; sleep 2; echo done\n```\n"
	for _, test := range []struct {
		name   string
		note   string
		change func(string) string
		want   func(was, note string) bool
		beside bool
	}{
		{
			"text is written above and below", "# A\n\n" + block + "\nend\n",
			func(s string) string { return "new line\n" + s + "more\n" },
			func(was, note string) bool {
				return strings.HasPrefix(note, "new line\n# A\n\n"+block+"> [!quote]- silk-sandbox output · ok · ") && strings.HasSuffix(note, "> ```\n\nend\nmore\n")
			},
			false,
		},
		{
			"the block is moved", "# A\n\n" + block + "\nend\n",
			func(string) string {
				return "# A\n\nend\n\n- " + strings.ReplaceAll(strings.TrimSuffix(block, "\n"), "\n", "\n  ") + "\n"
			},
			func(was, note string) bool { return strings.HasPrefix(note, was+"  > [!quote]- silk-sandbox") },
			false,
		},
		{
			"the code is changed", "# A\n\n" + block, func(s string) string { return strings.Replace(s, "echo done", "echo undone", 1) },
			func(was, note string) bool { return was == note }, true,
		},
		{
			"the block is deleted", "# A\n\n" + block + "\nend\n", func(string) string { return "# A\n\nend\n" },
			func(was, note string) bool { return was == note }, true,
		},
		{
			"a copy is made below", block + "\nend\n", func(s string) string { return s + "\n" + block },
			func(was, note string) bool {
				return strings.HasPrefix(note, block+"> [!quote]- silk-sandbox") && strings.HasSuffix(note, "\nend\n\n"+block)
			}, false,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			v := newVault(t, test.note, "lab:text")
			cmd := v.Command(t.Context(), "note", "run", v.note, "--block", "1")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, func() bool { // it runs
				list, err := v.Command(t.Context(), "runs", "ls", "--json").Output()
				return err == nil && strings.Contains(string(list), `"run"`)
			})
			was := test.change(test.note)
			if err := os.WriteFile(v.note, []byte(was), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, stderr.String())
			}
			if got := v.text(); !test.want(was, got) {
				t.Errorf("the note is\n%s", got)
			}
			others, err := filepath.Glob(filepath.Join(v.dir, "* (silk *).md"))
			if err != nil || len(others) == 1 != test.beside {
				t.Errorf("beside it are %v, %v", others, err)
			}
			if test.beside && len(others) == 1 {
				text, err := os.ReadFile(others[0])
				if err != nil || !strings.HasPrefix(string(text), block+"> [!quote]- silk-sandbox output · ok") || !strings.Contains(string(text), "\n> done\n") || !strings.Contains(stderr.String(), others[0]) {
					t.Errorf("beside the note: %s, %v; said: %s", text, err, stderr.String())
				}
			}
		})
	}
}

// TestNoteBlockIsTakenBack: a block that is taken out of what runs, around its code, is not run though it was there at the start.
func TestNoteBlockIsTakenBack(t *testing.T) {
	const first, second = "```sh\ncat /proc/uptime >/dev/null; sleep 2; echo one\n```\n", "```sh {silk timeout=2s}\necho RAN\n```\n"
	for _, test := range []struct{ name, note, before, after, why string }{
		{"it is in a comment", first + "\n" + second, second, "%%\n" + second + "%%\n", "it is in a comment"},
		{"the note says off", "---\nsilk: {timeout: 60s}\n---\n" + first + "\n" + second, "silk: {timeout: 60s}", "silk: nonsense", "silk is a map of attributes, or off"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			v := newVault(t, test.note, "lab:text")
			cmd := v.Command(t.Context(), "note", "run", v.note, "--all")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, func() bool {
				list, err := v.Command(t.Context(), "runs", "ls", "--json").Output()
				return err == nil && strings.Contains(string(list), `"run"`)
			})
			if err := os.WriteFile(v.note, []byte(strings.Replace(test.note, test.before, test.after, 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 126 {
				t.Errorf("the end: %v", err)
			}
			if strings.Contains(v.text(), "> RAN") || !strings.Contains(stderr.String(), "not run: ") || !strings.Contains(stderr.String(), test.why) {
				t.Errorf("%s\n%s", stderr.String(), v.text())
			}
		})
	}
}

// TestNoteReadOnly: nothing runs whose result could not be put into the note.
func TestNoteReadOnly(t *testing.T) {
	v := newVault(t, "```sh\necho\n```\n", "lab:text")
	if err := os.Chmod(v.note, 0o444); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := v.verb("run", v.note); status != 125 || !strings.Contains(stderr, "is read-only") {
		t.Errorf("%d: %s", status, stderr)
	}
	if list, err := v.Command(t.Context(), "runs", "ls", "--json").Output(); err != nil || strings.Contains(string(list), `"run"`) {
		t.Errorf("%s, %v", list, err)
	}
}

// TestNoteKilled kills silk while a block runs: the next one removes what that leaves in the system's temporary directory.
func TestNoteKilled(t *testing.T) {
	v := newVault(t, "```sh\necho; sleep 60\n```\n\n```sh\necho\n```\n", "lab:text")
	temp := t.TempDir()
	v.Env = append(v.Env, "TMPDIR="+temp)
	left := func() []string {
		list, err := filepath.Glob(filepath.Join(temp, "silk-note-*"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	cmd := v.Command(t.Context(), "note", "run", v.note, "--block", "1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return len(left()) == 1 })
	others := filepath.Join(temp, "silk-note-123")
	if err := os.Mkdir(others, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := v.verb("run", v.note, "--block", "2"); status != 0 || len(left()) != 2 {
		t.Errorf("beside one that lives: %d, %s; there are %v", status, stderr, left())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unlessExit(cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := v.verb("run", v.note, "--block", "2"); status != 0 || !slices.Equal(left(), []string{others}) {
		t.Errorf("after the kill: %d, %s; there are %v", status, stderr, left())
	}
}

// lockedBuffer is what a program says while it runs.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// await waits for something that happens soon.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it does not happen")
		}
	}
}

// TestNoteWatch: only what is approved, or may run by itself in this vault, is run; everything else is only told.
func TestNoteWatch(t *testing.T) {
	const text = "```sh\necho one\n```\n\n```sh\necho two\n```\n\n```sh {silk auto}\necho three\n```\n"
	v := newVault(t, text, "lab:text")
	if _, stderr, status := v.verb("approve", v.note, "--block", "1"); status != 0 {
		t.Fatalf("approve: %d %s", status, stderr)
	}
	watch := func() (*exec.Cmd, *lockedBuffer) {
		t.Helper()
		cmd := v.Command(t.Context(), "note", "watch", v.dir, "--every", "20ms")
		said := &lockedBuffer{}
		cmd.Stderr = said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, said
	}
	end := func(cmd *exec.Cmd) {
		t.Helper()
		signal(t, cmd.Process.Pid, syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	results := func() int { return strings.Count(v.text(), "[!quote]- silk-sandbox") }
	cmd, said := watch()
	await(t, func() bool { return strings.Count(said.String(), "not approved") == 2 && results() == 1 })
	if got := v.text(); !strings.Contains(got, "echo one\n```\n> [!quote]- silk-sandbox") {
		t.Errorf("the note is\n%s", got)
	}
	// The approved block, changed: it is another one. Back again: it runs.
	if err := os.WriteFile(v.note, []byte(strings.Replace(text, "echo one", "echo 1", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return strings.Count(said.String(), "not approved") == 3 })
	if results() != 0 {
		t.Errorf("a changed block was run:\n%s", v.text())
	}
	if err := os.WriteFile(v.note, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return results() == 1 })
	end(cmd)

	f, err := os.OpenFile(v.Config, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("notes:\n  auto: [" + v.dir + "]\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd, _ = watch()
	await(t, func() bool { return results() == 2 })
	if got := v.text(); !strings.Contains(got, "echo three\n```\n> [!quote]- silk-sandbox") || strings.Contains(got, "echo two\n```\n>") {
		t.Errorf("the note is\n%s", got)
	}
	end(cmd)
}

// TestNoteHandoff: a result that did not end well leads to the note that explains it.
func TestNoteHandoff(t *testing.T) {
	v := newVault(t, "```sh\necho no >&2; exit 4\n```\n", "lab:text")
	f, err := os.OpenFile(v.Config, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("handoffs:\n  sinks: [{name: notes, vault: " + v.dir + "}]\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := v.verb("run", v.note); status != 4 {
		t.Fatalf("%d %s", status, stderr)
	}
	link := regexp.MustCompile(`> silk-sandbox: handed on to .*\[\[(Code_Explainer/[^|]+)\|code_explainer\]\]`).FindStringSubmatch(v.text())
	if link == nil {
		t.Fatalf("the note is\n%s", v.text())
	}
	if out, err := v.Command(t.Context(), "handoffs", "deliver").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(v.dir, link[1]+".md"))
	if err != nil || !strings.Contains(string(text), filepath.Base(strings.TrimSuffix(v.note, ".md"))) {
		t.Errorf("%v: %s", err, text)
	}
}

// TestNoteOnServer: the same with blocks that run on a server.
func TestNoteOnServer(t *testing.T) {
	s := newServer(t, "")
	s.start()
	v := vault{silk: s.silk, T: t, dir: t.TempDir()}
	v.flags = []string{"--server", "unix://" + filepath.Join(s.Home, "silk.sock")}
	v.note = filepath.Join(v.dir, "n.md")
	const note = "- ```sh {silk timeout=5s}\n  echo out; echo err >&2; printf 'GIF89a' >x.gif; exit 3\n  ```\n\n```sh {silk timeout=9h}\ntrue\n```\n"
	if err := put(v.note, note); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := v.verb("run", v.note, "--block", "1")
	got := v.text()
	if status != 3 || !strings.Contains(got, "  > [!danger] silk-sandbox output · failed · exit 3 · ") || !strings.Contains(got, "  > out\n") || !strings.Contains(got, "  >> err\n") {
		t.Errorf("status %d: %s; note\n%s", status, stderr, got)
	}
	if found, err := filepath.Glob(filepath.Join(v.dir, "attachments/silk-*/x.gif")); err != nil || len(found) != 1 || !strings.Contains(got, "/x.gif]]") {
		t.Errorf("pictures %v, %v", found, err)
	}
}
