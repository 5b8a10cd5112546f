package rootfs

import (
	"fmt"
	"io/fs"
	"slices"
	"syscall"
)

// User is whose eyes a root directory is read with: the user that the container's process was to be, as the host knows it.
// Everybody in a sandbox is user 1000 and owns nothing in the image, so what this one may read, all may; what it may not,
// nobody. Root reads everything, as it does on the host.
type User struct {
	UID    uint32
	GID    uint32
	Groups []uint32
}

func (u User) String() string {
	groups := slices.Clone(u.Groups)
	slices.Sort(groups)
	return fmt.Sprint(u.UID, " ", u.GID, " ", groups)
}

// mode gives everybody what u may do with a file.
func (u User) mode(info fs.FileInfo) fs.FileMode {
	mode := info.Mode()
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return mode
	}
	return mode&^0o7 | u.may(mode, stat.Uid, stat.Gid)
}

// may is the three bits that hold for u: inode(7), path_resolution(7), capabilities(7).
func (u User) may(mode fs.FileMode, uid, gid uint32) fs.FileMode {
	switch {
	case u.UID == 0:
		bits := fs.FileMode(0o6)
		if mode.IsDir() || mode&0o111 != 0 {
			bits |= 0o1
		}
		return bits
	case u.UID == uid:
		return mode >> 6 & 0o7
	case u.GID == gid || slices.Contains(u.Groups, gid):
		return mode >> 3 & 0o7
	}
	return mode & 0o7
}
