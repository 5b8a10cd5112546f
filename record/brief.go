package record

import (
	"encoding/json"
	"fmt"
)

// Brief is the part of a [Record] that lists show: all but how it was decided and what it was made of. It is stored beside the
// record, of which it repeats the JSON, since reading a hundred records takes longer than finding them.
type Brief struct {
	Run         string     `json:"run"`
	Client      string     `json:"client"`
	Profile     string     `json:"profile"`
	StartedAtMs int64      `json:"started_at_ms"`
	EndedAtMs   int64      `json:"ended_at_ms"`
	Command     string     `json:"command"`
	Driver      string     `json:"driver"`
	Image       string     `json:"image"`
	Outcome     Outcome    `json:"outcome"`
	Usage       Usage      `json:"usage"`
	Stdout      Channel    `json:"stdout"`
	Stderr      Channel    `json:"stderr"`
	Artifacts   []Artifact `json:"artifacts"`
}

// Brief is the part of r that lists show. What was seen before a violation is not in it.
func (r Record) Brief() Brief {
	b := Brief{
		Run: r.Run, Client: r.Client, Profile: r.Profile, StartedAtMs: r.StartedAtMs, EndedAtMs: r.EndedAtMs, Command: r.Command, Driver: r.Driver,
		Image: r.Image, Outcome: r.Outcome, Usage: r.Usage, Stdout: r.Stdout, Stderr: r.Stderr, Artifacts: r.Artifacts,
	}
	b.Outcome.Events, b.Outcome.Watched = nil, nil
	return b
}

// BriefColumn is the expression over the table runs, as r, that [ReadBrief] reads.
const BriefColumn = "coalesce(nullif(r.brief, ''), r.record)"

// ReadBrief decodes what BriefColumn gives.
func ReadBrief(text string) (b Brief, err error) {
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return b, fmt.Errorf("decode a record: %w", err)
	}
	return b, nil
}
