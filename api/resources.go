package api

import "encoding/json"

// Session groups the runs of one client, so that one stream carries them all.
type Session struct {
	ID          string `json:"session"`
	Name        string `json:"name"`
	CreatedAtMs int64  `json:"created_at_ms"`
}

// NewSession is what a session is made of.
type NewSession struct {
	Name string `json:"name,omitempty" maxLength:"200" doc:"For people"`
}

// Approval is a run that waits, or waited, for the owner.
type Approval struct {
	Run           string          `json:"run"`
	State         string          `json:"state" enum:"pending,granted,denied,expired,withdrawn"`
	Hash          string          `json:"hash" doc:"Of the request: name it to decide"`
	Rule          string          `json:"rule"`
	Detail        string          `json:"detail" doc:"What it asks for beyond its profile"`
	Token         string          `json:"token" doc:"Who asked"`
	Plan          json.RawMessage `json:"plan,omitempty" doc:"What would happen"`
	Code          string          `json:"code,omitempty" doc:"With invisible characters shown"`
	Omitted       string          `json:"omitted,omitempty" doc:"Why code is not the whole code"`
	Files         []ApprovalFile  `json:"files,omitempty" doc:"What else the program gets"`
	Warnings      []string        `json:"warnings,omitempty" doc:"What is strange about code"`
	Diff          string          `json:"diff,omitempty" doc:"To the last approved version"`
	RequestedAtMs int64           `json:"requested_at_ms"`
	ExpiresAtMs   int64           `json:"expires_at_ms" doc:"Without a decision it is denied then"`
	DecidedAtMs   int64           `json:"decided_at_ms,omitempty"`
	DecidedBy     string          `json:"decided_by,omitempty"`
	ValidUntilMs  int64           `json:"valid_until_ms,omitempty" doc:"Of a grant: the same request needs no other until then"`
}

// ApprovalFile is a file, or the input, of a run that waits for the owner.
type ApprovalFile struct {
	Name       string `json:"name"`
	Bytes      int    `json:"bytes"`
	SHA256     string `json:"sha256,omitempty"`
	Executable bool   `json:"executable,omitempty"`
	Text       string `json:"text,omitempty" doc:"With invisible characters shown"`
	Omitted    string `json:"omitted,omitempty" doc:"Why text is not the whole content"`
}

// DecisionRequest is the owner's answer.
type DecisionRequest struct {
	Grant    bool   `json:"grant"`
	Hash     string `json:"hash" minLength:"64" maxLength:"64" doc:"That of the approval, as a sign that it was looked at"`
	ForHours int    `json:"for_hours,omitempty" minimum:"0" maximum:"168" doc:"How long the same request needs no other approval; 0: for this run only"`
	Reason   string `json:"reason,omitempty" maxLength:"1000"`
}

// Profile is a named set of limits and rules.
type Profile struct {
	Name     string   `json:"name"`
	About    string   `json:"about,omitempty"`
	Image    string   `json:"image"`
	Language string   `json:"language,omitempty"`
	Network  string   `json:"network"`
	Hosts    []string `json:"hosts,omitempty" doc:"What an allow-list reaches without being asked for"`
	Limits   Limits   `json:"limits"`
	Max      Limits   `json:"max,omitzero" doc:"Ceilings, where they are above the limits"`
}

// Image is a root file system that programs see.
type Image struct {
	Tag    string `json:"tag,omitempty"`
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"`
}

// AuditEvent is one event of the audit trail.
type AuditEvent struct {
	ID        string          `json:"id"`
	Seq       int64           `json:"seq"`
	Timestamp int64           `json:"timestamp" doc:"Unix milliseconds"`
	IntentID  string          `json:"intent_id" doc:"Run id, or system"`
	Event     string          `json:"event"`
	Data      json.RawMessage `json:"data"`
	Hash      string          `json:"hash"`
}

// Token is a credential without its secret.
type Token struct {
	ID          string `json:"token"`
	Name        string `json:"name"`
	Role        string `json:"role" enum:"owner,runner,viewer"`
	MaxRunning  int    `json:"max_running,omitempty" doc:"Runs at once; absent: the server's"`
	MaxQueued   int    `json:"max_queued,omitempty" doc:"Runs that wait; absent: the server's"`
	CreatedAtMs int64  `json:"created_at_ms"`
	ExpiresAtMs int64  `json:"expires_at_ms,omitempty"`
	RevokedAtMs int64  `json:"revoked_at_ms,omitempty"`
}

// NewToken is what a token is made of.
type NewToken struct {
	Name       string `json:"name" minLength:"1" maxLength:"100"`
	Role       string `json:"role" enum:"owner,runner,viewer"`
	MaxRunning int    `json:"max_running,omitempty" minimum:"0" maximum:"1000000"`
	MaxQueued  int    `json:"max_queued,omitempty" minimum:"0" maximum:"1000000"`
	ExpiresMs  int64  `json:"expires_ms,omitempty" minimum:"0" maximum:"3155760000000" doc:"From now; absent: never"`
}

// MadeToken is a new token with its secret, which is shown this once.
type MadeToken struct {
	Token
	Secret string `json:"secret"`
}

// TicketRequest names what a ticket is for.
type TicketRequest struct {
	Path string `json:"path" pattern:"^/v1/(runs|sessions)/[0-9A-Z]{26}/stream$" doc:"The stream that it opens"`
}

// Ticket stands in for a token in the URL of one WebSocket, once.
type Ticket struct {
	Ticket      string `json:"ticket"`
	ExpiresAtMs int64  `json:"expires_at_ms"`
}
