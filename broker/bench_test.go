package broker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
)

func benchmarkOutput(b *testing.B, p []byte, viewers int) {
	broker := newBroker(b, nil)
	s := open(b, broker, "r", Limits{LogBytes: 1 << 40})
	for range viewers {
		v, err := broker.View(b.Context(), "r", Cursor{})
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			for {
				if _, err := v.Next(context.Background()); err != nil {
					return
				}
			}
		}()
	}
	offset := int64(0)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		s.w.frames = 0 // whole lines are not to be joined
		s.Output("stdout", offset, uint64(offset+1), time.Millisecond, p)
		offset += int64(len(p))
	}
	s.End(api.Outcome{})
}

var (
	benchLine  = []byte("a line of output of the usual length, which is about eighty bytes with its end.\n")
	benchPiece = bytes.Repeat(benchLine, 256<<10/len(benchLine))
)

func BenchmarkLine(b *testing.B)             { benchmarkOutput(b, benchLine, 0) }
func BenchmarkLineWithViewer(b *testing.B)   { benchmarkOutput(b, benchLine, 1) }
func BenchmarkLineWithThousand(b *testing.B) { benchmarkOutput(b, benchLine, 1000) }
func BenchmarkPiece(b *testing.B)            { benchmarkOutput(b, benchPiece, 0) }
func BenchmarkPieceWithViewer(b *testing.B)  { benchmarkOutput(b, benchPiece, 1) }

// BenchmarkPart is a program that writes single bytes.
func BenchmarkPart(b *testing.B) { benchmarkOutput(b, []byte("x"), 1) }

// BenchmarkBinary goes as base64.
func BenchmarkBinary(b *testing.B) {
	benchmarkOutput(b, bytes.Repeat([]byte{0xff, 0, 1, 'x'}, 64<<10), 1)
}

// BenchmarkEncode is the part of it that is encoding.
func BenchmarkEncode(b *testing.B) {
	p := benchPiece[:frameBytes]
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		encodeOutput("01J00000000000000000000000", stdout, stamp{1, 1}, 0, p)
	}
}

// BenchmarkCatchUp reads a log of 10 MiB of lines from its begin.
func BenchmarkCatchUp(b *testing.B) {
	broker := newBroker(b, nil)
	s := open(b, broker, "r", Limits{})
	n := defaultLogBytes / len(benchLine)
	for i := range n {
		s.Output("stdout", int64(i*len(benchLine)), uint64(i+1), 0, benchLine)
	}
	s.End(api.Outcome{})
	b.SetBytes(int64(n * len(benchLine)))
	for b.Loop() {
		v, err := broker.View(b.Context(), "r", Cursor{})
		if err != nil {
			b.Fatal(err)
		}
		for {
			if _, err := v.Next(b.Context()); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
		v.Close()
	}
}

// BenchmarkRoundTrip is the time from a write to a viewer that waits, and back.
func BenchmarkRoundTrip(b *testing.B) {
	broker := newBroker(b, nil)
	s := open(b, broker, "r", Limits{LogBytes: 1 << 40})
	v, err := broker.View(b.Context(), "r", Cursor{})
	if err != nil {
		b.Fatal(err)
	}
	got := make(chan struct{})
	go func() {
		for {
			if _, err := v.Next(context.Background()); err != nil {
				return
			}
			got <- struct{}{}
		}
	}()
	<-got
	offset := int64(0)
	for b.Loop() {
		s.w.frames = 0
		s.Output("stdout", offset, uint64(offset+1), 0, benchLine)
		offset += int64(len(benchLine))
		<-got
	}
}
