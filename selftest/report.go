package selftest

import "slices"

// Schema is the version of [Report]'s JSON form.
const Schema = "silk.selftest/v1"

// Report is what `silk selftest --json` prints.
type Report struct {
	Schema  string          `json:"schema"`
	Silk    string          `json:"silk"` // version
	Driver  string          `json:"driver"`
	Image   string          `json:"image"`  // tag
	Digest  string          `json:"digest"` // of the image
	UID     int             `json:"uid"`    // who ran it
	Began   string          `json:"began"`  // RFC 3339
	WallMs  int64           `json:"wall_ms"`
	Totals  map[Verdict]int `json:"totals"`
	Classes []ClassReport   `json:"classes"`
	Rows    []RowReport     `json:"rows"`

	// LeftOut counts rows that show nothing about this driver, by what they need of one and it does not have; see Row.Applies.
	LeftOut map[string]int `json:"left_out,omitempty"`
}

// ClassReport counts the rows of a class.
type ClassReport struct {
	Class string `json:"class"`
	Rows  int    `json:"rows"`
	Holds int    `json:"holds"`
}

// RowReport is what one row has shown.
type RowReport struct {
	Class    string   `json:"class"`
	Name     string   `json:"name"`
	Rule     string   `json:"rule,omitempty"`
	Attack   []string `json:"attack"`
	Expected string   `json:"expected"`
	Verdict  Verdict  `json:"verdict"`
	Problems []string `json:"problems,omitempty"`

	Outcome   string           `json:"outcome"`
	DecidedBy string           `json:"decided_by,omitempty"` // the rule that the outcome names
	Syscall   string           `json:"syscall,omitempty"`
	Errno     string           `json:"errno,omitempty"` // the kernel's last answer
	Refused   map[string]int64 `json:"refused,omitempty"`
	WallMs    int64            `json:"wall_ms"`
}

// Sum counts rows by verdict and by class, in the order of the classes.
func (r *Report) Sum() {
	r.Totals = map[Verdict]int{Holds: 0, Hole: 0, NotReached: 0, Broken: 0}
	r.Classes = []ClassReport{}
	for _, row := range r.Rows {
		r.Totals[row.Verdict]++
		i := slices.IndexFunc(r.Classes, func(c ClassReport) bool { return c.Class == row.Class })
		if i < 0 {
			i = len(r.Classes)
			r.Classes = append(r.Classes, ClassReport{Class: row.Class})
		}
		r.Classes[i].Rows++
		if row.Verdict == Holds {
			r.Classes[i].Holds++
		}
	}
}

// OK says whether every row holds.
func (r *Report) OK() bool { return r.Totals[Holds] == len(r.Rows) }

// Report is what there is to say of a row that has not run.
func (r Row) Report() RowReport {
	return RowReport{Class: r.Class, Name: r.Name, Rule: r.Rule, Attack: r.Attack, Expected: r.want().String()}
}
