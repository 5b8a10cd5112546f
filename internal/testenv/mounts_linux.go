package testenv

import (
	"fmt"
	"os"
	"strings"
)

// mount is one line of /proc/self/mountinfo, as proc_pid_mountinfo(5) lays it out.
type mount struct {
	id           string
	root         string
	point        string
	fsType       string
	source       string
	superOptions string
}

func (m mount) String() string {
	return fmt.Sprintf("%s %s on %s (root %s, id %s)", m.fsType, m.source, m.point, m.root, m.id)
}

func readMounts() ([]mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return parseMounts(string(text)), nil
}

// parseMounts skips lines it does not understand.
func parseMounts(text string) []mount {
	var mounts []mount
	for line := range strings.Lines(text) {
		// 36 35 98:0 /root /point rw,noatime master:1 - ext3 source rw,errors=continue
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 6 || len(right) < 3 {
			continue
		}
		mounts = append(mounts, mount{
			id: left[0], root: unescape(left[3]), point: unescape(left[4]),
			fsType: right[0], source: unescape(right[1]), superOptions: right[2],
		})
	}
	return mounts
}

// unescape undoes the octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
