package process

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Landlocked says what Landlock does for gateways on this host: nil, or why it takes no files away from them.
func Landlocked() error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); errno != 0 {
		return errors.New("this kernel has no Landlock, or has it switched off")
	}
	return nil
}
