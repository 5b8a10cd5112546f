package gvisor

import (
	"context"
	"errors"

	"github.com/silk-sandbox/silk/internal/cgroup"
)

// Sweep removes what a silk that was killed left behind: empty control groups. A sandbox itself cannot be left: its
// kernel dies with the thread that forked it and with the socket to it.
func (d *Driver) Sweep(ctx context.Context) error {
	groups, err := d.host.groups()
	if errors.Is(err, cgroup.ErrUnavailable) {
		return nil
	}
	if err != nil {
		return err
	}
	return groups.Sweep(ctx)
}

// Leftovers names what Sweep would remove.
func (d *Driver) Leftovers() ([]string, error) {
	groups, err := d.host.groups()
	if errors.Is(err, cgroup.ErrUnavailable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return groups.Leftovers()
}
