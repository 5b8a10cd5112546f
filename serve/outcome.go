package serve

import (
	"strings"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
)

// OutcomeOf is what clients see of an outcome: everything but the text of the output, which they have, and the events
// before a violation, which the record has.
func OutcomeOf(o run.Outcome) api.Outcome {
	out := api.Outcome{
		Kind: string(o.Kind), Reason: string(o.Reason), Message: publicMessage(string(o.Reason), o.Message), ExitCode: o.ExitCode, Signal: o.Signal, Phase: o.Phase,
		Rule: o.Rule, Syscall: o.Syscall, Argument: o.Argument,
		Stdout:    api.Channel{Bytes: o.Stdout.Bytes, Truncated: o.Stdout.Truncated, SHA256: o.Stdout.SHA256},
		Stderr:    api.Channel{Bytes: o.Stderr.Bytes, Truncated: o.Stderr.Truncated, SHA256: o.Stderr.SHA256},
		Artifacts: []api.Artifact{}, Flags: o.Flags, Refused: o.Refused, WallMs: o.WallMs, Usage: api.Usage(o.Usage),
		Run: o.Run, Driver: o.Driver, Image: o.Image, EgressMore: o.EgressMore,
	}
	for _, d := range o.Egress {
		out.Egress = append(out.Egress, api.Destination(d))
	}
	for _, a := range o.Artifacts {
		out.Artifacts = append(out.Artifacts, api.Artifact(a))
	}
	if out.Flags == nil {
		out.Flags = map[string]int64{}
	}
	return out
}

// recordedOutcome is the same from a record.
func recordedOutcome(r record.Brief) *api.Outcome {
	if r.Outcome.Kind == "" {
		return nil
	}
	o := r.Outcome
	out := api.Outcome{
		Kind: o.Kind, Reason: o.Reason, Message: publicMessage(o.Reason, o.Message), ExitCode: o.ExitCode, Signal: o.Signal, Phase: o.Phase,
		Rule: o.Rule, Syscall: o.Syscall, Argument: o.Argument,
		Stdout:    api.Channel{Bytes: r.Stdout.Bytes, Truncated: r.Stdout.Truncated, SHA256: r.Stdout.SHA256},
		Stderr:    api.Channel{Bytes: r.Stderr.Bytes, Truncated: r.Stderr.Truncated, SHA256: r.Stderr.SHA256},
		Artifacts: []api.Artifact{}, Flags: o.Flags, Refused: o.Refused, WallMs: o.WallMs, Usage: api.Usage(r.Usage),
		Run: r.Run, Driver: r.Driver, Image: r.Image, EgressMore: o.EgressMore,
	}
	for _, d := range o.Egress {
		out.Egress = append(out.Egress, api.Destination(d))
	}
	for _, a := range r.Artifacts {
		out.Artifacts = append(out.Artifacts, api.Artifact(a))
	}
	if out.Flags == nil {
		out.Flags = map[string]int64{}
	}
	return &out
}

// publicMessage is what clients are told of an outcome. What the host's own faults say may name its paths: that is in the record
// and in the server's log.
func publicMessage(reason, message string) string {
	if reason != string(run.ReasonHost) || strings.HasPrefix(message, run.HostRestarted) {
		return message
	}
	return "the host could not run it; the server's log says why"
}

// Public is a record as clients see it.
func Public(r record.Record) record.Record {
	r.Outcome.Message = publicMessage(r.Outcome.Reason, r.Outcome.Message)
	return r
}
