package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// engine is a Docker Engine of the tests' own, in their namespaces: silk has to see the processes of its containers, and they have to see the
// resolver and the routes that silk has.
type engine struct {
	host  string // as DOCKER_HOST has it
	cmd   *exec.Cmd
	stdin io.Closer // it ends when this is closed
	err   error
}

var (
	theEngine      *engine
	startingEngine sync.Once
)

// enterEngine returns the engine, which all tests share.
func enterEngine(t testing.TB) *engine {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.Docker, testenv.BPF, testenv.Landlock)
	enterWorld(t)
	startingEngine.Do(func() { theEngine = startEngine() })
	if theEngine.err != nil {
		t.Fatal(theEngine.err)
	}
	return theEngine
}

// startEngine has tools/dockerd start one, and a program in it that says where it is and waits for its end.
func startEngine() *engine {
	e := &engine{cmd: exec.CommandContext(context.Background(), "../../tools/dockerd", "sh", "-c", "echo $"+testenv.EnvDocker+"; exec cat")}
	e.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, testenv.EnvDocker+"=") })
	e.cmd.Stderr = os.Stderr
	stdin, err := e.cmd.StdinPipe()
	stdout, outErr := e.cmd.StdoutPipe()
	if e.err = errors.Join(err, outErr); e.err != nil {
		return e
	}
	if e.err = e.cmd.Start(); e.err != nil {
		return e
	}
	e.stdin = stdin
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if e.host = strings.TrimSpace(line); e.host == "" {
		e.err = fmt.Errorf("start an engine: it does not say where it is: %w", errors.Join(err, e.stop()))
	}
	return e
}

func (e *engine) stop() error {
	if e == nil || e.stdin == nil {
		return nil
	}
	return errors.Join(e.stdin.Close(), e.cmd.Wait())
}
