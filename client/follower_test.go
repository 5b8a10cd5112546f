package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/api"
)

const testRun = "01M8MWS8RGMEFM6Z2M0J3QXY1A"

func num(n int64) *int64 { return &n }

func hello(stdout, stderr int64) api.Frame {
	return api.Frame{Type: api.FrameHello, Run: testRun, State: "running", TailFrom: &api.Tail{Stdout: stdout, Stderr: stderr}}
}

func output(channel string, offset int64, data string) api.Frame {
	f := api.Frame{Type: api.FrameOutput, Run: testRun, Channel: channel, Offset: &offset}
	f.SetBytes([]byte(data))
	return f
}

func gapFrame(channel string, from, to int64) api.Frame {
	return api.Frame{Type: api.FrameGap, Run: testRun, Channel: channel, From: &from, To: &to}
}

func exit(stdout, stderr int64) api.Frame {
	return api.Frame{Type: api.FrameExit, Run: testRun, Outcome: &api.Outcome{
		Kind: "ok", Run: testRun, Stdout: api.Channel{Bytes: stdout}, Stderr: api.Channel{Bytes: stderr}, Artifacts: []api.Artifact{}, Flags: map[string]int64{},
	}}
}

func encoded(t testing.TB, f api.Frame) []byte {
	t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// connections gives the frames of each connection to one follower.
func follow(t *testing.T, f *follower, connections ...[]api.Frame) (got []api.Frame, err error) {
	t.Helper()
	for _, frames := range connections {
		f.fresh = true
		for _, frame := range frames {
			new, err := f.take(encoded(t, frame))
			if err != nil {
				return got, err
			}
			got = append(got, new...)
		}
	}
	return got, nil
}

func TestFollower(t *testing.T) {
	started := api.Frame{Type: api.FrameStarted, Run: testRun, AtMs: num(5)}
	approval := func(state string) api.Frame { return api.Frame{Type: api.FrameApproval, Run: testRun, State: state} }
	later := api.Frame{Type: "later", Run: testRun, Detail: "what a later server may say"}
	for _, test := range []struct {
		name string
		from Cursor
		in   [][]api.Frame
		want []api.Frame
	}{
		{
			"one connection",
			Cursor{},
			[][]api.Frame{{hello(0, 0), started, output("stdout", 0, "ab"), {Type: api.FramePing}, output("stderr", 0, "x"), output("stdout", 2, "c"), later, exit(3, 1)}},
			[]api.Frame{hello(0, 0), started, output("stdout", 0, "ab"), output("stderr", 0, "x"), output("stdout", 2, "c"), later, exit(3, 1)},
		},
		{
			"a second connection repeats a part and what stands",
			Cursor{},
			[][]api.Frame{{hello(0, 0), started, output("stdout", 0, "abc")}, {hello(1, 0), started, output("stdout", 1, "bcd"), output("stdout", 2, "c"), exit(4, 0)}},
			[]api.Frame{hello(0, 0), started, output("stdout", 0, "abc"), output("stdout", 3, "d"), exit(4, 0)},
		},
		{
			"a character that was cut is base64",
			Cursor{},
			[][]api.Frame{{hello(0, 0), output("stdout", 0, "a\xc3")}, {hello(0, 0), output("stdout", 0, "aé!"), exit(4, 0)}},
			[]api.Frame{hello(0, 0), output("stdout", 0, "a\xc3"), output("stdout", 2, "\xa9!"), exit(4, 0)},
		},
		{
			"a state that changes is told, and told once",
			Cursor{},
			[][]api.Frame{{hello(0, 0), approval("pending")}, {hello(0, 0), approval("pending"), approval("granted")}, {hello(0, 0), approval("granted"), exit(0, 0)}},
			[]api.Frame{hello(0, 0), approval("pending"), approval("granted"), exit(0, 0)},
		},
		{
			"a gap of the server's, a part of which the caller has",
			Cursor{},
			[][]api.Frame{{hello(0, 0), output("stdout", 0, "abc"), gapFrame("stdout", 1, 9), gapFrame("stdout", 2, 9), output("stdout", 9, "j"), exit(10, 0)}},
			[]api.Frame{hello(0, 0), output("stdout", 0, "abc"), gapFrame("stdout", 3, 9), output("stdout", 9, "j"), exit(10, 0)},
		},
		{
			"a hole that the server does not mention",
			Cursor{},
			[][]api.Frame{{hello(0, 0), output("stderr", 4, "e"), exit(0, 5)}},
			[]api.Frame{hello(0, 0), gapFrame("stderr", 0, 4), output("stderr", 4, "e"), exit(0, 5)},
		},
		{
			"a connection that begins too late",
			Cursor{},
			[][]api.Frame{{hello(0, 0), output("stdout", 0, "ab")}, {hello(7, 2), exit(7, 2)}},
			[]api.Frame{hello(0, 0), output("stdout", 0, "ab"), gapFrame("stdout", 2, 7), gapFrame("stderr", 0, 2), exit(7, 2)},
		},
		{
			"the end of the output did not come",
			Cursor{},
			[][]api.Frame{{hello(0, 0), output("stdout", 0, "ab"), exit(5, 1)}},
			[]api.Frame{hello(0, 0), output("stdout", 0, "ab"), gapFrame("stdout", 2, 5), gapFrame("stderr", 0, 1), exit(5, 1)},
		},
		{
			"a server that lost what the caller has",
			Cursor{},
			[][]api.Frame{{hello(0, 0), output("stdout", 0, "abcdef")}, {hello(3, 0), exit(3, 0)}},
			[]api.Frame{hello(0, 0), output("stdout", 0, "abcdef"), exit(3, 0)},
		},
		{
			"the tail: what is before it was not asked for",
			Cursor{Tail: true},
			[][]api.Frame{{hello(100, 7), output("stdout", 100, "x")}, {hello(101, 7), exit(101, 7)}},
			[]api.Frame{hello(100, 7), output("stdout", 100, "x"), exit(101, 7)},
		},
		{
			"a cursor in the middle",
			Cursor{Stdout: 2},
			[][]api.Frame{{hello(0, 0), output("stdout", 0, "abc"), exit(3, 0)}},
			[]api.Frame{hello(0, 0), output("stdout", 2, "c"), exit(3, 0)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := follow(t, &follower{run: testRun, at: test.from}, test.in...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFollowerRefuses(t *testing.T) {
	other := output("stdout", 0, "x")
	other.Run = "01M8MWS8RGMEFM6Z2M0J3QXY1B"
	noOutcome, bad := exit(0, 0), output("stdout", 0, "x")
	noOutcome.Outcome = nil
	bad.Data, bad.B64 = "", "!"
	for _, test := range []struct {
		name string
		in   []api.Frame
	}{
		{"no hello", []api.Frame{output("stdout", 0, "x")}},
		{"two hellos", []api.Frame{hello(0, 0), hello(0, 0)}},
		{"a hello that says no offset", []api.Frame{{Type: api.FrameHello, Run: testRun}}},
		{"a negative offset in hello", []api.Frame{hello(-1, 0)}},
		{"a frame of another run", []api.Frame{hello(0, 0), other}},
		{"a channel that there is not", []api.Frame{hello(0, 0), output("stdin", 0, "x")}},
		{"output without an offset", []api.Frame{hello(0, 0), {Type: api.FrameOutput, Run: testRun, Channel: "stdout", Data: "x"}}},
		{"output before the begin", []api.Frame{hello(0, 0), output("stdout", -1, "x")}},
		{"base64 that is none", []api.Frame{hello(0, 0), bad}},
		{"a gap without an end", []api.Frame{hello(0, 0), {Type: api.FrameGap, Run: testRun, Channel: "stdout", From: num(0)}}},
		{"a gap that ends before it begins", []api.Frame{hello(0, 0), gapFrame("stdout", 5, 4)}},
		{"a gap of no channel", []api.Frame{hello(0, 0), gapFrame("", 0, 4)}},
		{"an exit without an outcome", []api.Frame{hello(0, 0), noOutcome}},
		{"an exit whose outcome has no kind", []api.Frame{hello(0, 0), {Type: api.FrameExit, Run: testRun, Outcome: &api.Outcome{}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := follow(t, &follower{run: testRun}, test.in)
			if !errors.As(err, new(*protocolError)) || !final(err) {
				t.Errorf("got %v and %v, want an error that ends the stream", got, err)
			}
		})
	}
	f := follower{run: testRun, fresh: true}
	if _, err := f.take([]byte("<html>")); !errors.As(err, new(*protocolError)) {
		t.Errorf("got %v for a page, want an error that ends the stream", err)
	}
}

// FuzzFollower: whatever a server says, bytes come in order, once, and no further than it said.
func FuzzFollower(f *testing.F) {
	for _, seed := range [][]api.Frame{
		{hello(0, 0), output("stdout", 0, "abc"), output("stdout", 1, "bcd"), gapFrame("stderr", 0, 7), exit(4, 7)},
		{hello(9, 0), output("stdout", 12, "\xff")},
	} {
		var text []string
		for _, frame := range seed {
			text = append(text, string(encoded(f, frame)))
		}
		f.Add(strings.Join(text, "\n"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		fo := follower{run: testRun, fresh: true}
		at := map[string]int64{}
		for line := range bytes.Lines([]byte(text)) {
			frames, err := fo.take(line)
			if err != nil {
				return
			}
			for _, frame := range frames {
				switch frame.Type {
				case api.FrameOutput:
					data, err := frame.Bytes()
					if err != nil || len(data) == 0 || *frame.Offset != at[frame.Channel] {
						t.Fatalf("output %d+%d (%v) where %d was next", *frame.Offset, len(data), err, at[frame.Channel])
					}
					at[frame.Channel] += int64(len(data))
				case api.FrameGap:
					if *frame.From != at[frame.Channel] || *frame.To <= *frame.From {
						t.Fatalf("gap %d-%d where %d was next", *frame.From, *frame.To, at[frame.Channel])
					}
					at[frame.Channel] = *frame.To
				}
			}
		}
	})
}
