//go:build linux

package install

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
)

const (
	labText  = "lab:text"
	ordinary = 65534 // uid and gid of the user that tests run as when they are root: nobody
)

// scratch is a directory that other users can reach, unlike t.TempDir.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "silk-install-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// script runs a script of this repository with settings added to the environment.
func script(t *testing.T, env []string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(testenv.RepoRoot(), args[0]), args[1:]...)
	cmd.Dir = testenv.RepoRoot()
	cmd.Env = append(os.Environ(), append([]string{"SILK_HOME=" + testenv.Home(), "IMAGES=" + labText}, env...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestOrdinaryUser installs silk as whoever runs the tests and runs a program as a user who owns nothing of it.
func TestOrdinaryUser(t *testing.T) {
	testenv.Require(t, testenv.Silk, testenv.Image(labText), testenv.Userns)
	dir := scratch(t)
	prefix, home := filepath.Join(dir, "prefix"), filepath.Join(dir, "home")
	script(t, nil, "deploy/install", prefix)
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, filepath.Join(prefix, "bin/silk"), "run", "-p", labText, "--", "sh", "-c", "echo hello; id -u")
	run.Dir, run.Env = "/", []string{"HOME=" + home, "PATH=/usr/bin:/bin"}
	if os.Geteuid() == 0 {
		if err := os.Chown(home, ordinary, ordinary); err != nil {
			t.Fatal(err)
		}
		run.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	}
	var stderr bytes.Buffer
	run.Stderr = &stderr
	out, err := run.Output()
	if got, want := string(out), "hello\n1000\n"; err != nil || got != want {
		t.Errorf("silk run = %q, %v, want %q\n%s", got, err, want, stderr.String())
	}
}

// TestInstalled looks at what lies where, and that all of it can be read by everybody and written to by its owner only.
func TestInstalled(t *testing.T) {
	testenv.Require(t, testenv.Silk, testenv.Image(labText))
	dir := t.TempDir()
	defer syscall.Umask(syscall.Umask(0o077)) // an installer with a strict umask
	script(t, []string{"DESTDIR=" + dir}, "deploy/install", "/usr")
	for name, contains := range map[string]string{
		"bin/silk":                                  "\x7fELF",
		"share/man/man1/silk.1":                     ".TH SILK 1",
		"share/bash-completion/completions/silk":    "__start_silk",
		"share/zsh/site-functions/_silk":            "#compdef silk",
		"share/fish/vendor_completions.d/silk.fish": "complete -c silk",
		"share/doc/silk/examples/hello.py":          "silk run",
		"share/doc/silk/THIRD-PARTY":                "gvisor.dev/gvisor@",
		"share/silk/images/tags/" + labText:         "sha256:",
	} {
		data, err := os.ReadFile(filepath.Join(dir, "usr", name))
		if err != nil || !bytes.Contains(data, []byte(contains)) {
			t.Errorf("%s has no %q: %v", name, contains, err)
		}
	}
	checkLinks(t, filepath.Join(dir, "usr/share/doc/silk"))
	err := filepath.WalkDir(filepath.Join(dir, "usr"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if entry.Type() == fs.ModeSymlink { // its mode says nothing: silk-runtime is silk
			return nil
		}
		if mode := info.Mode().Perm(); mode&0o444 != 0o444 || mode&0o022 != 0 || entry.IsDir() && mode&0o111 != 0o111 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkLinks looks whether what the documents below dir link to is there.
func checkLinks(t *testing.T, dir string) {
	t.Helper()
	target := regexp.MustCompile(`\]\(([^)#]+)`)
	links := 0
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range target.FindAllSubmatch(text, -1) {
			if link := string(found[1]); !strings.Contains(link, "://") {
				links++
				if _, err := os.Stat(filepath.Join(filepath.Dir(path), link)); err != nil {
					t.Errorf("%s links to %s, which is not installed", path, link)
				}
			}
		}
		return err
	})
	if err != nil || links == 0 {
		t.Errorf("%d links, %v", links, err)
	}
}

// TestPackage builds the Debian package twice: the same bytes, made of files that their md5sums describe.
func TestPackage(t *testing.T) {
	testenv.Require(t, testenv.Silk, testenv.Image(labText), testenv.Apt)
	var sums [2][sha256.Size]byte
	deb := ""
	for i := range sums {
		dist := t.TempDir()
		script(t, []string{"DIST=" + dist, "SOURCE_DATE_EPOCH=1700000000"}, "deploy/deb/build", "v1.2.3-4-gabc")
		deb = filepath.Join(dist, "silk_1.2.3+4.gabc_amd64.deb")
		data, err := os.ReadFile(deb)
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = sha256.Sum256(data)
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds of one commit differ: %x, %x", sums[0], sums[1])
	}
	dir := t.TempDir()
	unpack := exec.CommandContext(t.Context(), "dpkg-deb", "--raw-extract", deb, dir)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack package: %v\n%s", err, out)
	}
	check := exec.CommandContext(t.Context(), "md5sum", "--check", "--quiet", "DEBIAN/md5sums")
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("md5sums: %v\n%s", err, out)
	}
	for _, name := range []string{"share/silk/images/tags/" + labText, "share/zsh/vendor-completions/_silk", "share/man/man1/silk.1.gz"} {
		if _, err := os.Stat(filepath.Join(dir, "usr", name)); err != nil {
			t.Errorf("the package lacks a file: %v", err)
		}
	}
}
