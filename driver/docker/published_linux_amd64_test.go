package docker

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// literalProfile is the seccomp profile of the published design to the letter: what makes a process, and what executes a program, is denied.
const literalProfile = `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["clone", "fork", "vfork", "execve", "execveat"], "action": "SCMP_ACT_ERRNO"}]}`

// TestPublishedProfile shows why silk has another profile than the published one: under that no container starts at all, since an OCI runtime executes
// the container's first program under the profile. The same container without it starts.
func TestPublishedProfile(t *testing.T) {
	d := newDriver(t)
	root := openLabText(t)
	defer root.Close()
	id, err := d.imageOf(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, profile string
		starts        bool
	}{{"literal", literalProfile, false}, {"none", "unconfined", true}} {
		t.Run(test.name, func(t *testing.T) {
			run := fmt.Sprintf("published-%s-%d", test.name, os.Getpid())
			c := container{
				Image: id, User: "1000:1000", Entrypoint: []string{"/bin/true"},
				HostConfig: hostConfig{NetworkMode: "none", CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges", "seccomp=" + test.profile}, LogConfig: logConfig{"none"}},
			}
			if _, err := d.engine.create(t.Context(), name(run), c); err != nil {
				t.Fatal(err)
			}
			err := d.engine.start(t.Context(), name(run))
			if test.starts && err != nil || !test.starts && err != nil && !strings.Contains(err.Error(), "operation not permitted") {
				t.Errorf("the engine says %v", err)
			}
			if err == nil { // the engine may not hear of what fails after it has let the runtime go on
				var last looked
				within(t, 20*time.Second, "the container has ended", func() bool {
					last, err = d.engine.look(t.Context(), name(run))
					return err != nil || last.State.Status == "exited"
				})
				if ran := last.State.ExitCode == 0; err != nil || ran != test.starts {
					t.Errorf("the program ran: %t, %v", ran, err)
				}
			}
			if err := d.engine.remove(t.Context(), name(run)); err != nil {
				t.Error(err)
			}
		})
	}
}
