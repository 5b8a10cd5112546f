package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
)

// What may be done with a file, landlock(7).
const (
	toRead   = unix.LANDLOCK_ACCESS_FS_READ_FILE
	toRun    = unix.LANDLOCK_ACCESS_FS_EXECUTE
	toWrite  = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	toChange = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_REFER
	ofNodes = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	ofFiles = toRead | toRun | toWrite // what a rule about a file, not a directory, may say
)

// landlockVersion is the oldest one that does: links between directories, and truncation. Linux 6.2.
const landlockVersion = 3

// Place is a part of the file system and what may be done there.
type Place struct {
	path   string
	access uint64
}

// Places are all that a program may touch. Listing a directory is free: its names are no secret. Of /proc there is nothing: what may be
// opened there a [Supervisor] opens for it.
func Places(spec driver.Spec) (list []Place) {
	for _, tree := range readable(spec) {
		list = append(list, Place{tree, toRead | toRun})
	}
	for _, e := range rules.Startup() {
		access := uint64(toRead)
		if rules.Covers("/dev", e.Name) {
			access |= toWrite
		}
		if !e.Hidden && !rules.Covers("/proc", e.Name) {
			list = append(list, Place{e.Name, access})
		}
	}
	writable := uint64(toRead | toWrite | toChange)
	list = append(list, Place{"/tmp", writable})
	if spec.ReadOnly {
		return append(list, Place{"/workspace", toRead | toRun})
	}
	return append(list, Place{"/dev/shm", writable}, Place{"/workspace", writable | toRun})
}

// Ruleset makes Landlock's form of it. What is not there needs no rule. The caller closes the ruleset.
func Ruleset(r Root, list []Place) (fd int, err error) {
	handled := uint64(ofFiles | toChange | ofNodes)
	attr := binary.NativeEndian.AppendUint64(nil, handled)
	fd, err = landlock(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr[0])), uintptr(len(attr)), 0, 0)
	if err != nil {
		return -1, fmt.Errorf("make Landlock ruleset: %w", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	for _, p := range list {
		if err := allowPlace(fd, r, p); err != nil {
			return -1, fmt.Errorf("allow %s in Landlock ruleset: %w", p.path, err)
		}
	}
	return fd, nil
}

func allowPlace(ruleset int, r Root, p Place) error {
	fd, err := r.At(p.path, unix.O_PATH)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	mode, err := modeOf(fd)
	if err != nil {
		return err
	}
	if mode != unix.S_IFDIR {
		p.access &= ofFiles
	}
	rule := binary.NativeEndian.AppendUint64(nil, p.access) // struct landlock_path_beneath_attr, packed
	rule = binary.NativeEndian.AppendUint32(rule, uint32(fd))
	_, err = landlock(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule[0])), 0)
	return err
}

func landlock(number, a, b, c, d uintptr) (int, error) {
	n, _, errno := unix.Syscall6(number, a, b, c, d, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// CheckLandlock says whether this kernel has what a run needs of it.
func CheckLandlock() error {
	version, err := landlock(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION, 0)
	if err == nil && version < landlockVersion {
		err = fmt.Errorf("it has version %d, and %d is needed (Linux 6.2)", version, landlockVersion)
	}
	return err
}
