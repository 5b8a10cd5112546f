package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/broker"
)

// One goroutine writes what a run prints; another, which may come and go, reads it.
func Example() {
	b, err := broker.New(broker.Config{}) // with Dir, viewers that fall behind miss nothing
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	s, err := b.Open("run-1", broker.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Publish(api.Frame{Type: api.FrameStarted})
	s.Output("stdout", 0, 1, 3*time.Millisecond, []byte("hello\nwor"))
	s.Output("stdout", 9, 2, 5*time.Millisecond, []byte("ld\n"))
	s.End(api.Outcome{Kind: "ok", Run: "run-1", Flags: map[string]int64{}})

	v, err := b.View(context.Background(), "run-1", broker.Cursor{Stdout: 6}) // it has the first line already
	if err != nil {
		fmt.Println(err)
		return
	}
	defer v.Close()
	for {
		frame, err := v.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			fmt.Println("how the run ended is unknown:", err)
			return
		}
		fmt.Printf("%.100s\n", frame)
	}
	// Output:
	// {"type":"hello","run":"run-1","state":"ended","tail_from":{"stdout":6,"stderr":0}}
	// {"type":"started","run":"run-1"}
	// {"type":"output","run":"run-1","seq":2,"at_ms":5,"channel":"stdout","offset":6,"data":"world\n"}
	// {"type":"exit","run":"run-1","outcome":{"outcome":"ok","exit_code":null,"stdout":{"bytes":0,"truncat
}
