// Command look prints what it sees of itself after a stage.
package main

import (
	"encoding/json"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

func main() {
	seen := map[string]any{"args": os.Args, "env": os.Environ()}
	fail := func(key string, err error) {
		if err != nil {
			seen[key] = err.Error()
		}
	}
	files := map[string]string{}
	fail("walk", fs.WalkDir(os.DirFS("/"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			files[path] = ""
			return err
		}
		b, err := os.ReadFile("/" + path)
		files[path] = string(b)
		return err
	}))
	seen["files"] = files
	var st unix.Statfs_t
	fail("statfs", unix.Statfs("/", &st))
	seen["root flags"] = st.Flags & (unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC)

	header, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	fail("capget", unix.Capget(&header, &data[0]))
	seen["capabilities"] = data
	bounding := 0
	for c := uintptr(0); ; c++ {
		in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			break
		}
		bounding += in
	}
	seen["bounding"] = bounding
	name, err := os.Hostname()
	fail("host name", err)
	seen["host"] = name
	nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	fail("no_new_privs", err)
	seen["no_new_privs"] = nnp
	fail("mount", unix.Mount("x", "/", "tmpfs", 0, ""))
	fail("chroot", unix.Chroot("/"))
	seen["nested"] = nested()
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		os.Exit(1)
	}
}
