package confine

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/driver/rules"
)

func TestJudged(t *testing.T) {
	trees := []string{"/usr", "/bin", "/etc/one"}
	for _, test := range []struct {
		name string
		o    Object
		want string
	}{
		{"accounts", Object{Path: "/etc/passwd"}, rules.FileAccounts},
		{"below accounts", Object{Path: "/etc/sudoers/x"}, rules.FileAccounts},
		{"a name that only begins alike", Object{Path: "/etc/passwdx"}, rules.FileUnlisted},
		{"root's home", Object{Path: "/root", Directory: true}, rules.FileRootHome},
		{"symbols of the kernel", Object{Path: "/proc/kallsyms"}, rules.FileKernel},
		{"the own environment", Object{Path: "/proc/7/environ"}, rules.FileStartup},
		{"another's environment", Object{Path: "/proc/8/environ"}, rules.FileEnviron},
		{"another's, of a thread", Object{Path: "/proc/8/task/9/environ"}, rules.FileEnviron},
		{"the own memory", Object{Path: "/proc/7/mem"}, rules.FileStartup},
		{"another's memory", Object{Path: "/proc/8/mem"}, rules.FileMemory},
		{"a disk", Object{Path: "/dev/sda"}, rules.FileDevice},
		{"nothing", Object{Path: "/dev/null"}, rules.FileStartup},
		{"limits", Object{Path: "/sys/fs/cgroup/memory.max"}, rules.FileProbe},
		{"processors", Object{Path: "/sys/devices/system/cpu/online"}, rules.FileStartup},
		{"on the way to them", Object{Path: "/sys/devices/system", Directory: true}, rules.FileDirectory},
		{"the host's hardware", Object{Path: "/sys/class/net", Directory: true}, rules.FileSys},
		{"the workspace", Object{Path: "/workspace/a"}, rules.FileWorkspace},
		{"a lookalike of it", Object{Path: "/workspace-evil"}, rules.FileUnlisted},
		{"temporary", Object{Path: "/dev/shm/a"}, rules.FileTemporary},
		{"the image", Object{Path: "/usr/lib/x"}, rules.FileImage},
		{"one file of it", Object{Path: "/etc/one"}, rules.FileImage},
		{"a directory", Object{Path: "/etc", Directory: true}, rules.FileDirectory},
		{"a pipe", Object{Anonymous: true}, rules.FileAnonymous},
		{"anything else", Object{Path: "/proc/cgroups"}, rules.FileUnlisted},
	} {
		if got := judged(test.o, 7, trees); got.Name != test.want {
			t.Errorf("%s: judged(%+v) by %s, want %s", test.name, test.o, got.Name, test.want)
		}
	}
	if got := quick([]string{"/usr", "/bin", "/etc/x", "/dev", "/var"}); !cmp.Equal(got, []string{"/usr", "/bin"}) {
		t.Errorf("quick trees are %q", got)
	}
}
