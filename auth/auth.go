// Package auth says who asks: tokens, roles, tickets for browsers, and the limits on those who keep asking.
//
// Every door of the service turns what it was shown into an [Identity] and asks it what it may do ([Identity.Can],
// [Identity.Sees], [Identity.Controls]); nothing else decides that. A bearer token becomes one through a [Verifier], a
// ticket through [Tickets], a connection of the service's unix socket is [LocalOwner]. An unknown role or action is
// refused, and the zero Identity may do nothing.
//
// [Create] makes a token and returns its secret, once: the database has its SHA-256, which is enough, since the secret is
// 256 random bits and nobody guesses them. [Revoke] ends it. Both are audit events of the same transaction.
//
// [Origins] and [Hosts] keep web pages out that a browser on this machine has open; [Limiter] slows those down who ask too
// often, or with wrong secrets ([AddressKey]).
//
// It knows no HTTP, and it is no user management: a token is a program or a device of the owner's, not a person.
package auth

import (
	"context"
	"errors"
)

// ErrUnauthorized is returned when a secret, token or ticket is no good. Why (unknown, expired, revoked, mistyped) is in the
// log of the server only: who guesses learns nothing.
var ErrUnauthorized = errors.New("not authorized")

// ErrForbidden is returned when a known identity asks for what its role does not allow.
var ErrForbidden = errors.New("the role does not allow this")

// Role is what a token is for. Roles are fixed; an unknown one may do nothing.
type Role string

// The roles.
const (
	Owner  Role = "owner"  // everything
	Runner Role = "runner" // start runs, see and end its own
	Viewer Role = "viewer" // see all runs, start none
)

// Roles are the roles that a token can have.
var Roles = []Role{Owner, Runner, Viewer}

// Action is something that not everybody may do.
type Action int

// The actions. The zero Action is none and nobody may do it.
const (
	ActRun     Action = iota + 1 // start runs and sessions
	ActView                      // see one's own runs, their output, artifacts and records; profiles and images
	ActViewAll                   // see those of everybody, sessions and metrics too
	ActControl                   // write to the stdin of one's own runs, end them, resize their terminals
	ActControlAll
	ActDecide // see what waits for an approval, with its code, and decide
	ActTokens // make, list and revoke tokens
	ActAudit  // read the audit trail
	ActSkills // register and revoke skills
)

// Actions are all of them.
var Actions = []Action{ActRun, ActView, ActViewAll, ActControl, ActControlAll, ActDecide, ActTokens, ActAudit, ActSkills}

func (a Action) String() string {
	switch a {
	case ActRun:
		return "start runs"
	case ActView:
		return "see its own runs"
	case ActViewAll:
		return "see the runs of all"
	case ActControl:
		return "control its own runs"
	case ActControlAll:
		return "control the runs of all"
	case ActDecide:
		return "decide about approvals"
	case ActTokens:
		return "manage tokens"
	case ActAudit:
		return "read the audit trail"
	case ActSkills:
		return "register and revoke skills"
	}
	return "unknown action"
}

// Valid says whether r is one of [Roles].
func (r Role) Valid() bool { return r == Owner || r == Runner || r == Viewer }

// Can says whether r may do a.
func (r Role) Can(a Action) bool {
	switch a {
	case ActRun, ActControl:
		return r == Owner || r == Runner
	case ActView:
		return r == Owner || r == Runner || r == Viewer
	case ActViewAll:
		return r == Owner || r == Viewer
	case ActControlAll, ActDecide, ActTokens, ActAudit, ActSkills:
		return r == Owner
	}
	return false
}

// LocalToken is the token of who connects to the unix socket, where tables and audit events name one.
const LocalToken = "local"

// LocalOwner is who connects to the unix socket, whose permissions and peer credentials have let through only the account
// of the service and root.
var LocalOwner = Identity{Token: LocalToken, Name: LocalToken, Role: Owner}

// Identity is who asks. The zero Identity is nobody.
type Identity struct {
	Token      string // id of the token; [LocalToken] for the socket
	Name       string // what the owner calls it
	Role       Role
	MaxRunning int // runs at once; 0: what the server allows each token
	MaxQueued  int // runs that wait; 0: what the server allows each token
}

// Can says whether id may do a.
func (id Identity) Can(a Action) bool { return id.Token != "" && id.Role.Can(a) }

// Sees says whether id may see what belongs to token: a run, a session, their output.
func (id Identity) Sees(token string) bool {
	return id.Can(ActViewAll) || id.Can(ActView) && token == id.Token
}

// Controls says whether id may end, write to or resize what belongs to token.
func (id Identity) Controls(token string) bool {
	return id.Can(ActControlAll) || id.Can(ActControl) && token == id.Token
}

type contextKey struct{}

// NewContext returns a context that carries id.
func NewContext(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, id)
}

// FromContext returns the identity that ctx carries. Without one it is nobody, who may do nothing, and false.
func FromContext(ctx context.Context) (Identity, bool) {
	id, ok := ctx.Value(contextKey{}).(Identity)
	return id, ok
}
