package serve

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPhases(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	for name, test := range map[string]struct {
		marks map[string]int
		want  []Phase
	}{
		"a whole run": {
			map[string]int{
				"arrived": 0, "accepted": 1, "asked": 1, "answered": 5, "waits": 5, "taken": 9, "decided": 10, "image is open": 11, "driver starts": 12, "request sent": 13,
				"workspace is filled": 20, "program runs": 21, "first output": 22, "workspace arrives": 30, "sandbox is gone": 31, "end is recorded": 33,
			},
			[]Phase{
				{"accept", at(0), at(1)},
				{"approval", at(1), at(5)},
				{"queue", at(5), at(9)},
				{"image", at(10), at(11)},
				{"driver start", at(12), at(13)},
				{"sandbox boot", at(13), at(20)},
				{"program", at(20), at(30)},
				{"collect", at(30), at(31)},
				{"record", at(31), at(33)},
			},
		},
		"a driver that says nothing, a program that leaves nothing": {
			map[string]int{"driver starts": 12, "workspace is filled": 20, "sandbox is gone": 31, "end is recorded": 33},
			[]Phase{{"driver start", at(12), at(20)}, {"program", at(20), at(31)}, {"record", at(31), at(33)}},
		},
		"it ends where it is":           {map[string]int{"arrived": 0, "accepted": 1, "waits": 1}, []Phase{{"accept", at(0), at(1)}, {"queue", at(1), at(50)}}},
		"denied":                        {map[string]int{"asked": 1, "answered": 4}, []Phase{{"approval", at(1), at(4)}}},
		"nobody decides":                {map[string]int{"asked": 1}, []Phase{{"approval", at(1), at(50)}}},
		"nothing is known of its begin": {map[string]int{}, nil},
	} {
		marks := map[string]time.Time{}
		for what, ms := range test.marks {
			marks[what] = at(ms)
		}
		if diff := cmp.Diff(test.want, phases(marks, at(50))); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
