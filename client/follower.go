package client

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/silk-sandbox/silk/api"
)

// follower turns the messages of several connections into one sequence of frames, in which each byte of output comes once. It does
// no I/O.
type follower struct {
	run     string
	at      Cursor // what the caller has
	greeted bool   // hello was given
	fresh   bool   // the next message is the first one of a connection
	states  map[api.FrameType][]byte
}

// take returns what a message means for the caller: no frame, one, or one with gap frames before it.
func (f *follower) take(text []byte) ([]api.Frame, error) {
	var frame api.Frame
	if err := json.Unmarshal(text, &frame); err != nil {
		return nil, &protocolError{fmt.Sprintf("the server sent something that is no frame: %v", err)}
	}
	if frame.Type != api.FramePing && frame.Run != f.run {
		return nil, &protocolError{fmt.Sprintf("the server sent a frame of run %.40q on the stream of another", frame.Run)}
	}
	if f.fresh != (frame.Type == api.FrameHello) && frame.Type != api.FramePing {
		return nil, &protocolError{"the server does not begin with hello, or says it twice"}
	}
	switch frame.Type {
	case api.FramePing:
		return nil, nil
	case api.FrameHello:
		return f.hello(frame)
	case api.FrameOutput:
		return f.output(frame)
	case api.FrameGap:
		return f.gap(frame)
	case api.FrameExit:
		return f.exit(frame)
	case api.FrameQueued, api.FrameStarted, api.FrameApproval, api.FrameViolation:
		return f.state(frame, text), nil
	}
	return []api.Frame{frame}, nil // also what a later server may say
}

// runOf is the run that a message is of; "" for those of none.
func runOf(text []byte) (string, error) {
	var frame struct{ Run string }
	if err := json.Unmarshal(text, &frame); err != nil {
		return "", &protocolError{fmt.Sprintf("the server sent something that is no frame: %v", err)}
	}
	return frame.Run, nil
}

// hello begins a connection. Only the first one is given; one that begins later in the output than the caller is means a gap.
func (f *follower) hello(frame api.Frame) ([]api.Frame, error) {
	f.fresh = false
	tail := frame.TailFrom
	if tail == nil || tail.Stdout < 0 || tail.Stderr < 0 {
		return nil, &protocolError{"the server does not say where the output begins"}
	}
	var frames []api.Frame
	if !f.greeted {
		f.greeted = true
		if f.at.Tail {
			f.at = Cursor{Stdout: tail.Stdout, Stderr: tail.Stderr}
		}
		frames = append(frames, frame)
	}
	frames = f.missing(frames, "stdout", tail.Stdout)
	return f.missing(frames, "stderr", tail.Stderr), nil
}

// missing appends the gap between what the caller has of a channel and to, if there is one.
func (f *follower) missing(frames []api.Frame, channel string, to int64) []api.Frame {
	at := f.offset(channel)
	if *at >= to {
		return frames
	}
	from := *at
	*at = to
	return append(frames, api.Frame{Type: api.FrameGap, Run: f.run, Channel: channel, From: &from, To: &to})
}

// offset is how much of a channel the caller has; nil: there is no such channel.
func (f *follower) offset(channel string) *int64 {
	switch channel {
	case "stdout":
		return &f.at.Stdout
	case "stderr":
		return &f.at.Stderr
	}
	return nil
}

// maxOffset is more than a program prints in a thousand years, and far from where offsets overflow.
const maxOffset = 1 << 61

// output gives what is new of a piece.
func (f *follower) output(frame api.Frame) ([]api.Frame, error) {
	at := f.offset(frame.Channel)
	data, err := frame.Bytes()
	if at == nil || frame.Offset == nil || *frame.Offset < 0 || *frame.Offset > maxOffset || err != nil {
		return nil, &protocolError{"the server sent output that cannot be read"}
	}
	begin := *frame.Offset
	end := begin + int64(len(data))
	if end <= *at {
		return nil, nil
	}
	frames := f.missing(nil, frame.Channel, begin)
	if known := *at - begin; known > 0 {
		frame.SetBytes(data[known:])
		begin = *at
		frame.Offset = &begin
	}
	*at = end
	if len(data) == 0 { // all that it says is where it is
		return frames, nil
	}
	return append(frames, frame), nil
}

// gap gives what is new of a gap.
func (f *follower) gap(frame api.Frame) ([]api.Frame, error) {
	if f.offset(frame.Channel) == nil || frame.From == nil || frame.To == nil || *frame.From < 0 || *frame.To < *frame.From {
		return nil, &protocolError{"the server sent a gap that cannot be read"}
	}
	return f.missing(nil, frame.Channel, *frame.To), nil
}

// state gives what is said of the run as a whole, unless it was the last thing said of its kind: each connection begins with it.
func (f *follower) state(frame api.Frame, text []byte) []api.Frame {
	if bytes.Equal(f.states[frame.Type], text) {
		return nil
	}
	if f.states == nil {
		f.states = map[api.FrameType][]byte{}
	}
	f.states[frame.Type] = bytes.Clone(text)
	return []api.Frame{frame}
}

// exit is the end. What was printed and did not come is a gap.
func (f *follower) exit(frame api.Frame) ([]api.Frame, error) {
	if frame.Outcome == nil || frame.Outcome.Kind == "" {
		return nil, &protocolError{"the server sent an exit frame without an outcome"}
	}
	frames := f.missing(nil, "stdout", frame.Outcome.Stdout.Bytes)
	frames = f.missing(frames, "stderr", frame.Outcome.Stderr.Bytes)
	return append(frames, frame), nil
}
