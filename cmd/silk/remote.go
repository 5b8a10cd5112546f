package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/client"
)

// remoteFlags say where runs happen: on a server in place of this host. Their variables are SILK_SERVER_URL, SILK_TOKEN,
// SILK_TOKEN_FILE and SILK_FINGERPRINT. A token is no flag: everybody on the host can read the command lines of others.
type remoteFlags struct{ url, tokenFile, fingerprint string }

func (f *remoteFlags) add(root *cobra.Command) {
	s := root.PersistentFlags()
	s.StringVar(&f.url, "server", "", "`URL` of a silk server, in place of this host, for run, runs, note run, record show and export, mcp, skill and handoffs: https://HOST:PORT or unix:///PATH (default $SILK_SERVER_URL)")
	s.StringVar(&f.tokenFile, "token-file", "", "`FILE` with the token for the server (default $SILK_TOKEN_FILE; or the token itself in $SILK_TOKEN)")
	s.StringVar(&f.fingerprint, "fingerprint", "", "`SHA256` of the server's certificate, if it made its own (default $SILK_FINGERPRINT)")
}

// onServers are the commands that a server can do.
var onServers = map[string]bool{"run": true, "runs": true, "note": true, "handoffs": true, "mcp": true, "skill": true, "record": true}

// onHost are commands below those that are about files of this host.
var onHost = map[string]bool{
	"ls of note": true, "clean of note": true, "approve of note": true,
	"verify of record": true, "replay of record": true, "key of record": true, "hold of record": true, "release of record": true, "holds of record": true,
	"init of skill": true, "validate of skill": true, "hash of skill": true, "sign of skill": true, "run of skill": true, "selftest of skill": true, "explain of skill": true,
}

// checkRemote refuses flags for a server on commands that are about this host. Variables, which are set for all commands, do not
// count.
func checkRemote(cmd *cobra.Command) error {
	top := cmd
	for top.HasParent() && top.Parent().HasParent() {
		top = top.Parent()
	}
	if onServers[top.Name()] && !onHost[cmd.Name()+" of "+top.Name()] {
		return nil
	}
	for _, name := range []string{"server", "token-file", "fingerprint"} {
		if cmd.Flags().Changed(name) {
			return usagef("%s is about this host; leave --%s out", cmd.CommandPath(), name)
		}
	}
	return nil
}

// serverURL is the address of the server that the user named; "" is this host.
func (a *app) serverURL() string { return or(a.remote.url, a.env("SILK_SERVER_URL")) }

// server makes a client of the server that the user named.
func (a *app) server() (*client.Client, error) {
	cfg := client.Config{URL: a.serverURL(), Fingerprint: or(a.remote.fingerprint, a.env("SILK_FINGERPRINT"))}
	var err error
	if cfg.Token, err = a.token(); err != nil {
		return nil, err
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, usagef("--server %s: %v", printable(shownURL(cfg.URL)), err)
	}
	return c, nil
}

// shownURL is an address without what may be a password in it.
func shownURL(text string) string {
	if u, err := url.Parse(text); err != nil || u.User != nil {
		return "(not shown)"
	}
	return text
}

// maxToken bounds the file of a token.
const maxToken = 4 << 10

// token reads the token for the server: from the file of --token-file, else from $SILK_TOKEN, else from the file of
// $SILK_TOKEN_FILE. There may be none: a unix socket needs none.
func (a *app) token() (client.Token, error) {
	file, from := a.remote.tokenFile, "--token-file"
	if text := a.env("SILK_TOKEN"); file == "" && text != "" {
		t, err := client.ParseToken(text)
		if err != nil {
			return t, usagef("SILK_TOKEN: %v", err)
		}
		return t, nil
	}
	if file == "" {
		file, from = a.env("SILK_TOKEN_FILE"), "SILK_TOKEN_FILE"
	}
	if file == "" {
		return client.Token{}, nil
	}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return client.Token{}, missingf("%s: there is no %s", from, file)
	case err != nil:
		return client.Token{}, err
	case info.Size() > maxToken || info.IsDir():
		return client.Token{}, usagef("%s: %s is no file with a token", from, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return client.Token{}, fmt.Errorf("read token: %w", err)
	}
	t, err := client.ParseToken(string(text))
	if err != nil {
		return t, usagef("%s: %s: %v", from, file, err)
	}
	return t, nil
}

// serverOrLocal makes a client of the server that the user named, or else of the one of this host's state directory.
func (a *app) serverOrLocal() (*client.Client, error) {
	if a.serverURL() != "" {
		return a.server()
	}
	c, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	home, err := a.home(c)
	if err != nil {
		return nil, err
	}
	path := c.serve.socketPath(home)
	conn, err := net.Dial("unix", path) //nolint:noctx // it does not wait
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil, usagef("the server at %s is another account's; name it with --server URL and a token", path)
		}
		return nil, missingf("no server listens at %s; start one with silk serve, or name one with --server URL", path)
	}
	conn.Close()
	return client.New(client.Config{URL: (&url.URL{Scheme: "unix", Path: filepath.ToSlash(path)}).String()})
}

// hostBound refuses flags that mean something on this host only.
func (f *runFlags) hostBound() error {
	for _, no := range []struct {
		given     bool
		flag, why string
	}{
		{len(f.mounts) > 0, "--mount", "the server does not see this host's directories: copy one in with --dir"},
		{f.approve != "", "--approve", "on a server the owner approves, with silk runs approve"},
		{f.events, "--events", "a server does not send them; silk runs show --json has those before a violation"},
		{f.trace, "--trace-start", "it measures the start on this host"},
	} {
		if no.given {
			return usagef("%s cannot be used with --server: %s", no.flag, no.why)
		}
	}
	return nil
}

// oneLine is text of a server on one line of a terminal.
func oneLine(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

// withHint says what can be done about a certificate that nobody has signed.
func withHint(err error) error {
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return fmt.Errorf("%w; if the server made its certificate itself, name the fingerprint that it prints with --fingerprint", err)
	}
	return err
}
