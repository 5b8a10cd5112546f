package record

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/silk-sandbox/silk/watch"
)

// External signs with a command of the owner's, which has the private key or knows who has: a token, a service. It gets the bytes that are
// signed (DSSE's pre-authentication encoding) on its standard input, and prints the signature of Ed25519 in base64. What it prints is
// checked with the public key. Safe for concurrent use if the command is.
type External struct {
	Command []string  // absolute path and arguments; no shell
	Key     PublicKey // of what it signs with
	Timeout time.Duration
}

// externalTimeout is how long a command may take where nothing is said.
const externalTimeout = 10 * time.Second

// maxSaid bounds what is kept of what a command says.
const maxSaid = 4 << 10

// Sign implements [Signer].
func (x External) Sign(statement []byte) (keyID, signature string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("sign a record with %s: %w", x.Command[0], err)
		}
	}()
	timeout := x.Timeout
	if timeout == 0 {
		timeout = externalTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	signed := dsse.PAE(payloadType, statement)
	cmd := exec.CommandContext(ctx, x.Command[0], x.Command[1:]...)
	var out, said limited
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(signed), &out, &said
	cmd.WaitDelay = time.Second // for what it has started
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", "", fmt.Errorf("it took longer than %v", timeout)
		}
		if text := strings.TrimSpace(said.String()); text != "" {
			err = fmt.Errorf("%w: %s", err, watch.Printable(text)) // it may go to a terminal
		}
		return "", "", err
	}
	signature = strings.TrimSpace(out.String())
	raw, err := base64.StdEncoding.Strict().DecodeString(signature)
	if err != nil {
		return "", "", errors.New("what it printed is no base64")
	}
	if !ed25519.Verify(x.Key.key, signed, raw) {
		return "", "", errors.New("what it printed is no signature by the public key in the configuration")
	}
	return x.Key.ID(), signature, nil
}

// limited keeps the first bytes of what is written to it.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), max(0, maxSaid-l.Len()))])
	return len(p), nil
}
