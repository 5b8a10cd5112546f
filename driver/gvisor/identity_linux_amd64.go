package gvisor

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
)

// nobody is who the Sentry is on the host where it cannot be given an id of its own.
const nobody = 65534

// Ids on the host that a sandbox started by root gets one of, as uid and gid. No user, service or container has them:
// systemd's UIDS-GIDS document leaves 1879048192 to 2147483647 alone but for its foreign ids from 2147352576, and SSSD,
// samba and FreeIPA map what comes from directories to at most 2000200000 by default.
const (
	firstID = 0x78000000 // 2013265920
	lastID  = 0x7ffdffff // 2147352575
)

// identity is who a sandbox is on the host, as uid and gid.
type identity struct{ uid, gid int }

// newIdentity chooses an id for one sandbox. Two sandboxes that share one may signal each other's processes should both
// kernels be taken over; the PID namespaces still keep them apart. Two at one time have the same with a chance of 1 in
// 134 million, any two of a hundred 1 in 27,000. own is false for an ordinary user, who has but the one id, and for root
// in a container that lacks these: there it is nobody, as any unmapped id would fail the start.
func newIdentity() (_ identity, own bool) {
	if uid := os.Getuid(); uid != 0 {
		return identity{uid, os.Getgid()}, false
	}
	if !mapped("/proc/self/uid_map") || !mapped("/proc/self/gid_map") {
		return identity{nobody, nobody}, false
	}
	id := firstID + rand.IntN(lastID-firstID+1)
	return identity{id, id}, true
}

// mapped says whether a map of ids (user_namespaces(7)) has all that newIdentity chooses from.
func mapped(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var inside, outside, count uint64
		if _, err := fmt.Sscan(strings.TrimSpace(lines.Text()), &inside, &outside, &count); err == nil && inside <= firstID && inside+count > lastID {
			return true
		}
	}
	return false
}
