// Package client talks to a silk server: it asks for runs, watches them live, and fetches what they made.
//
// [New] makes a [Client] from the address of a server; each operation of the API (api/openapi.yaml) is a method of it, with the
// types of package api. What the server refuses is an [*api.Problem], found with errors.As; any other error is about the way to
// the server, or the caller's own context.
//
// [Client.Watch] follows one run. It reconnects by itself, and the caller gets each byte of output exactly once: what comes twice
// is dropped, what is lost is a gap frame. It ends with the exit frame. One that ends with an error says nothing about the run:
// [ErrUnknown] is never a success.
//
// The package is not for servers, keeps no state on disk, reads no environment and logs nothing. It writes a token into the header
// of requests to its one server only: redirects are not followed, and a token goes over plain HTTP to this host only.
package client
