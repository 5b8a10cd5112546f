package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/store"
)

// TestSkillRows: the published query over the audit trail prints rows with the published fields.
func TestSkillRows(t *testing.T) {
	s := newSilk(t, "lab:python")
	s.Env = append(s.Env, skillKey)
	publish(t, s, "good", "a.py", "print(1)")
	publish(t, s, "bad", "a.py", "raise SystemExit(3)")
	good, bad := runSkill(t, s, 0, "good"), runSkill(t, s, 3, "bad")
	db, err := store.Open(t.Context(), filepath.Join(s.Home, store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT * FROM audit_events WHERE event LIKE 'sandbox_%' ORDER BY timestamp DESC LIMIT 10")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"id", "timestamp", "intent_id", "event", "data", "created_at"} {
		if !slices.Contains(columns, want) {
			t.Errorf("there is no column %s: %q", want, columns)
		}
	}
	got := map[string]map[string]any{} // by run and event
	for rows.Next() {
		values := make([]any, len(columns))
		row := map[string]any{}
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			t.Fatal(err)
		}
		for i, column := range columns {
			row[column] = *values[i].(*any)
		}
		var data map[string]any
		if err := json.Unmarshal([]byte(fmt.Sprint(row["data"])), &data); err != nil {
			t.Fatalf("data %v: %v", row["data"], err)
		}
		if at, ok := row["timestamp"].(int64); !ok || at < 1e12 || fmt.Sprint(row["id"]) == "" || data["intentId"] != row["intent_id"] {
			t.Errorf("row %v", row)
		}
		got[fmt.Sprint(row["intent_id"], " ", row["event"])] = data
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		row    string
		fields map[string]any
	}{
		{good.Outcome.Run + " sandbox_started", map[string]any{"skillName": "good", "memoryMb": 128.0, "networkMode": "none"}},
		{good.Outcome.Run + " sandbox_completed", map[string]any{"skillName": "good", "exitCode": 0.0}},
		{bad.Outcome.Run + " sandbox_started", map[string]any{"skillName": "bad"}},
		{bad.Outcome.Run + " sandbox_error", map[string]any{"skillName": "bad", "exitCode": 3.0}},
	} {
		for field, value := range want.fields {
			if got[want.row][field] != value {
				t.Errorf("%s: %s is %v, want %v", want.row, field, got[want.row][field], value)
			}
		}
	}
	if _, ok := got[good.Outcome.Run+" sandbox_completed"]["durationMs"].(float64); !ok || len(got) != 4 {
		t.Errorf("rows %v", got)
	}
}

// TestSilkOfASkillIsKilled: with the silk of a skill goes its container, without another start; the next start puts the end into the trail.
func TestSilkOfASkillIsKilled(t *testing.T) {
	s := inContainers(t, "lab:python")
	s.Env = append(s.Env, skillKey)
	publish(t, s, "sleeps", "a.py", "import time\ntime.sleep(60)")
	publish(t, s, "fine", "a.py", "print(1)")
	if a := runSkill(t, s, 0, "fine", "--driver", "docker"); a.Stdout != "1\n" { // the image is there
		t.Fatalf("%+v", a)
	}
	cmd := s.Command(context.Background(), "skill", "run", "sleeps", "--driver", "docker")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	wait := func(what string, is func() bool) {
		t.Helper()
		for !is() {
			if time.Now().After(deadline) {
				t.Fatal("it is not so that " + what)
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	wait("the skill runs", func() bool {
		events, _ := verb(t, s, 0, "audit", "ls", "--event", "sandbox_started", "--json")
		return strings.Contains(events, `"sleeps"`) && containersOf(t, cmd.Process.Pid) == 1
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	wait("the container is gone", func() bool { return containersOf(t, cmd.Process.Pid) == 0 })
	if a := runSkill(t, s, 0, "fine", "--driver", "docker"); a.Stdout != "1\n" {
		t.Fatalf("%+v", a)
	}
	events, _ := verb(t, s, 0, "audit", "ls", "--event", "sandbox_error", "--json")
	if !strings.Contains(events, `"sleeps"`) || !strings.Contains(events, `"error"`) {
		t.Errorf("the end is not in the trail: %s", events)
	}
	if left, err := filepath.Glob(fmt.Sprintf("/run/silk/docker/*-%d-*", cmd.Process.Pid)); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestManySkills: twenty at once, each with its own result, on both drivers that are on this machine.
func TestManySkills(t *testing.T) {
	for driver, begin := range map[string]func(t *testing.T) silk{
		"gvisor": func(t *testing.T) silk { t.Helper(); return newSilk(t, "lab:python") },
		"docker": func(t *testing.T) silk { t.Helper(); return inContainers(t, "lab:python") },
	} {
		t.Run(driver, func(t *testing.T) {
			s := begin(t)
			s.Env = append(s.Env, skillKey)
			publish(t, s, "many", "a.py", "import sys\nopen('/tmp/mine', 'x').write(sys.argv[1])\nprint(open('/tmp/mine').read())")
			if a := runSkill(t, s, 0, "many", "--driver", driver, "--", "first"); a.Stdout != "first\n" {
				t.Fatalf("%+v", a)
			}
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					cmd := s.Command(t.Context(), "skill", "run", "many", "--driver", driver, "--json", "--", fmt.Sprint(i))
					cmd.Stderr = os.Stderr
					out, err := cmd.Output()
					var a skillAnswer
					if err == nil {
						err = json.Unmarshal(out, &a)
					}
					if err != nil || !a.Success || a.Stdout != fmt.Sprintln(i) {
						t.Errorf("skill %d: %v, %s", i, err, out)
					}
				})
			}
			all.Wait()
		})
	}
}
