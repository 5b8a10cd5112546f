package recipe

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// debianKeyring is where package debian-archive-keyring keeps the keys of all current releases.
const debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// ErrNoApt is in the error of a resolution on a host without apt.
var ErrNoApt = errors.New("apt-get is not installed on this host, and without it Debian dependencies cannot be resolved")

// resolve asks apt which packages names need on an empty system, without what omit names. apt runs in a configuration
// of its own in a temporary directory: it takes proxies, keys and other acquire settings from the host, and changes
// nothing there. That the answer is genuine is apt's work: it checks the signature of the archive.
func resolve(ctx context.Context, config Config, from source, client *http.Client, suite, arch string, names, omit []string) ([]Package, error) {
	dir, err := os.MkdirTemp(config.SpoolDir, "silk-apt-")
	if err != nil {
		return nil, fmt.Errorf("prepare apt: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := privateApt(dir, config, from, client, suite, arch); err != nil {
		return nil, fmt.Errorf("prepare apt: %w", err)
	}
	if _, err := apt(ctx, dir, "update"); err != nil {
		return nil, err
	}
	out, err := apt(ctx, dir, append([]string{"--print-uris", "install", "--"}, names...)...)
	if err != nil {
		return nil, err
	}
	packages, err := parseURIs(string(out), from.uri)
	if err != nil {
		return nil, fmt.Errorf("read apt's answer: %w", err)
	}
	return slices.DeleteFunc(packages, func(p Package) bool { return slices.Contains(omit, p.Name) }), nil
}

// privateApt writes a configuration for apt into dir: no system files are read but keys and passwords.
func privateApt(dir string, config Config, from source, client *http.Client, suite, arch string) error {
	for _, sub := range []string{"state/lists/partial", "cache/archives/partial", "sources.d", "empty"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	settings, err := aptSettings(config.AptDir)
	if err != nil {
		return err
	}
	var conf strings.Builder
	set := func(key, value string) { fmt.Fprintf(&conf, "%s \"%s\";\n", key, value) }
	for _, s := range settings { // proxies, certificates, time-outs; never hooks
		key := strings.ToLower(s.key)
		if strings.HasPrefix(key, "acquire::") && !strings.HasPrefix(key, "acquire::indextargets") && !strings.HasSuffix(key, "::") && !strings.ContainsAny(s.value, "\"\n") {
			set(s.key, s.value)
		}
	}
	empty := filepath.Join(dir, "empty")
	set("Dir::Etc::main", "/dev/null")
	set("Dir::Etc::parts", empty)
	set("Dir::Etc::preferences", "/dev/null")
	set("Dir::Etc::preferencesparts", empty)
	set("Dir::Etc::sourcelist", "/dev/null")
	set("Dir::Etc::sourceparts", filepath.Join(dir, "sources.d"))
	set("Dir::State", filepath.Join(dir, "state"))
	set("Dir::State::status", "/dev/null")
	set("Dir::Cache", filepath.Join(dir, "cache"))
	set("Dir::Log", empty)
	set("APT::Architecture", arch)
	set("APT::Architectures::", arch)
	set("APT::Install-Recommends", "false")
	set("APT::Sandbox::User", "")
	set("APT::Update::Error-Mode", "any")
	set("Acquire::ForceHash", "SHA256")
	set("Acquire::Languages", "none")
	set("Debug::NoLocking", "true")
	if err := setProxy(set, from, client); err != nil {
		return err
	}
	keys := from.signedBy
	if _, err := os.Stat(debianKeyring); keys == "" && err == nil {
		keys = debianKeyring
	}
	var list strings.Builder
	fmt.Fprintf(&list, "Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n", from.uri, suite)
	if keys != "" {
		fmt.Fprintf(&list, "Signed-By: %s\n", keys)
	}
	if from.trusted {
		list.WriteString("Trusted: yes\n")
	}
	if err := writeScratch(filepath.Join(dir, "sources.d", "silk.sources"), list.String()); err != nil {
		return err
	}
	return writeScratch(filepath.Join(dir, "apt.conf"), conf.String())
}

// setProxy gives apt the proxy that our own downloads take.
func setProxy(set func(key, value string), from source, client *http.Client) error {
	transport, ok := client.Transport.(*http.Transport)
	if !ok || transport.Proxy == nil || strings.HasPrefix(from.uri, "file:") {
		return nil
	}
	req, err := http.NewRequest(http.MethodGet, from.uri, nil)
	if err != nil {
		return err
	}
	proxy, err := transport.Proxy(req)
	if err != nil || proxy == nil {
		return err
	}
	set("Acquire::"+req.URL.Scheme+"::Proxy", proxy.String())
	return nil
}

// writeScratch writes a file that only apt reads, in a directory that only we have.
func writeScratch(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// apt runs apt-get with the configuration in dir and returns what it prints.
func apt(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-qq", "--no-install-recommends"}, args...)...)
	cmd.Env = []string{"APT_CONFIG=" + filepath.Join(dir, "apt.conf"), "LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=" + dir}
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	switch err := cmd.Run(); {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		return nil, ErrNoApt
	case err != nil:
		return nil, fmt.Errorf("apt-get %s: %w: %s", args[0], err, complaint(messages.String()))
	}
	return out.Bytes(), nil
}

// complaint is the first error line of apt's messages, else the last line.
func complaint(messages string) string {
	lines := strings.Split(strings.TrimSpace(messages), "\n")
	for _, line := range lines {
		if strings.HasPrefix(line, "E: ") {
			return strings.TrimPrefix(line, "E: ")
		}
	}
	return lines[len(lines)-1]
}

// parseURIs reads lines of apt-get --print-uris: 'URI' name_version_arch.deb SIZE SHA256:HEX
func parseURIs(text, mirror string) ([]Package, error) {
	var packages []Package
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 4 || !strings.HasPrefix(words[0], "'") {
			return nil, fmt.Errorf("line %q", strings.TrimSpace(line))
		}
		p, err := parseURI(strings.Trim(words[0], "'"), words[1], words[2], words[3], mirror)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", strings.TrimSpace(line), err)
		}
		packages = append(packages, p)
	}
	if len(packages) == 0 {
		return nil, errors.New("no packages")
	}
	slices.SortFunc(packages, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return packages, nil
}

func parseURI(address, file, size, sum, mirror string) (Package, error) {
	parts := strings.Split(file, "_")
	if len(parts) != 3 {
		return Package{}, fmt.Errorf("file name %q", file)
	}
	version, err := url.PathUnescape(parts[1]) // an epoch is written 1%3a
	if err != nil {
		return Package{}, err
	}
	_, below, ok := strings.Cut(address, strings.TrimPrefix(mirror, "file://")+"/pool/")
	if !ok { // apt leaves a password out
		_, below, ok = strings.Cut(address, "/pool/")
	}
	if !ok {
		return Package{}, errors.New("not in the pool")
	}
	below, err = url.PathUnescape("pool/" + below)
	if err != nil {
		return Package{}, err
	}
	bytes, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return Package{}, err
	}
	digest, ok := strings.CutPrefix(sum, "SHA256:")
	if _, err := hex.DecodeString(digest); !ok || err != nil {
		return Package{}, errors.New("no SHA256")
	}
	p := Package{Name: parts[0], Version: version, Path: below, SHA256: strings.ToLower(digest), Size: bytes}
	return p, p.validate()
}
