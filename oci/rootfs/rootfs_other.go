//go:build !linux

package rootfs

import "io/fs"

// User is whose eyes a root directory is read with.
type User struct {
	UID    uint32
	GID    uint32
	Groups []uint32
}

func (User) mode(info fs.FileInfo) fs.FileMode { return info.Mode() }
