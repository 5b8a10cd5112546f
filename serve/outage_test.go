package serve_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/serve/servetest"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

// TestDatabaseEndsConnections: the database server cuts every connection again and again, as when it is restarted. Clients that
// are told so ask again with their key; what was accepted ends once, and is executed once at most. A file has no server.
func TestDatabaseEndsConnections(t *testing.T) {
	s := servetest.New(t, servetest.Config{Queue: queue.Config{Running: 4}})
	if !s.DB.Shared() {
		return
	}
	var mu sync.Mutex
	times := map[string]int{}
	s.Fake.Started = func(spec driver.Spec) {
		mu.Lock()
		defer mu.Unlock()
		times[spec.ID]++
	}
	admin, err := storetest.Admin(testenv.StoreAddress())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	stop, stopped, cuts := make(chan struct{}), make(chan struct{}), 0
	halt := sync.OnceFunc(func() { close(stop); <-stopped })
	defer halt()
	go func() {
		defer close(stopped)
		again := time.NewTicker(40 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-again.C:
			case <-stop:
				return
			}
			if _, err := admin.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'silk' AND datname = current_database()"); err != nil {
				t.Error(err)
			}
			cuts++
		}
	}()
	var runs []string
	told := 0
	for i := range 40 {
		for {
			r, _, err := s.Server.Submit(t.Context(), servetest.Runner, program("print:x"), fmt.Sprint("key", i))
			if err == nil {
				runs = append(runs, r.ID)
				break
			}
			if told++; !errors.Is(err, store.ErrAway) {
				t.Fatalf("a client is told %v", err)
			}
		}
	}
	halt()
	t.Logf("%d cuts, of which clients were told %d times", cuts, told)
	ok, well := 0, map[string]bool{}
	for _, run := range runs {
		if r := waitEnded(t, s, run); r.Outcome == nil {
			t.Errorf("run %s has no outcome", run)
		} else if r.Outcome.Kind == "ok" {
			ok++
			well[run] = true
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for run := range times { // its end is written as soon as a connection lasts
		if !well[run] {
			t.Errorf("run %s was executed, and did not end well", run)
		}
	}
	for run, n := range times {
		if n > 1 {
			t.Errorf("run %s was executed %d times", run, n)
		}
	}
	if ok == 0 || cuts == 0 {
		t.Errorf("%d of %d runs ended well, %d cuts", ok, len(runs), cuts)
	}
	if _, err := audit.Verify(t.Context(), s.DB); err != nil {
		t.Error(err)
	}
}
