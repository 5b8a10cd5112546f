package main

import (
	"strings"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/client"
	"github.com/silk-sandbox/silk/handoff"
)

// handoffsOnServer lists those of a server.
func (a *app) handoffsOnServer(f handoff.Filter) (list []api.Handoff, err error) {
	c, err := a.server()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	want := client.HandoffFilter{State: f.State, Receiver: f.Receiver, Before: strings.ToUpper(f.Before), Page: min(f.Limit, 500)}
	if f.Run != "" {
		if want.Run, err = a.findRun(c, f.Run); err != nil {
			return nil, err
		}
	}
	for h, err := range c.Handoffs(a.ctx, want) {
		if err != nil {
			return nil, serverError(err)
		}
		if list = append(list, h); len(list) == f.Limit {
			break
		}
	}
	return list, nil
}

// onServersHandoff does something with a hand-off of a server, given by the begin of its id.
func (a *app) onServersHandoff(id string, do func(c *client.Client, id string) error) error {
	c, err := a.server()
	if err != nil {
		return err
	}
	defer c.Close()
	full, err := a.findHandoff(c, id)
	if err != nil {
		return err
	}
	return serverError(do(c, full))
}

// findHandoff makes an id of the begin of one, as on this host.
func (a *app) findHandoff(c *client.Client, id string) (string, error) {
	id = strings.ToUpper(id)
	if len(id) == idLength {
		return id, nil
	}
	if id == "" || len(id) > idLength || strings.Trim(id, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" {
		return "", handoffMissing(id, handoff.ErrNotFound)
	}
	var found []string
	for h, err := range c.Handoffs(a.ctx, client.HandoffFilter{Before: id + "~", Page: 2}) { // "~" is above all letters of an id
		if err != nil {
			return "", serverError(err)
		}
		if strings.HasPrefix(h.ID, id) {
			found = append(found, h.ID)
		}
		if !strings.HasPrefix(h.ID, id) || len(found) == 2 {
			break
		}
	}
	switch len(found) {
	case 0:
		return "", handoffMissing(id, handoff.ErrNotFound)
	case 2:
		return "", handoffMissing(id, &handoff.AmbiguousError{Prefix: id})
	}
	return found[0], nil
}

func (a *app) showRemoteHandoff(c *client.Client, id string) error {
	h, err := c.Handoff(a.ctx, id)
	if err != nil {
		return err
	}
	return a.printHandoff(h)
}

func (a *app) retryRemoteHandoff(c *client.Client, id string) error {
	h, err := c.RetryHandoff(a.ctx, id)
	if err == nil {
		a.errorf("the server delivers hand-off %s (%s)", h.ID, sinksText(h.Deliveries))
	}
	return err
}

func (a *app) ackRemoteHandoff(c *client.Client, id string) error {
	_, err := c.AckHandoff(a.ctx, id)
	return err
}
