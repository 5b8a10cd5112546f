// Package promise is the table of what each driver keeps of what silk promises: held, held otherwise, or refused. It is data (promises.json), shown by
// `silk plan` and `silk doctor`, and each cell names a test that holds the driver to it. It decides nothing: a driver refuses by itself what it does
// not keep, and says what a host adds to this.
package promise

import (
	"bytes"
	_ "embed" // the table
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// Held says how a promise is kept.
type Held string

const (
	Yes       Held = "held"
	Otherwise Held = "otherwise" // kept, in another way than it is usually
	Refused   Held = "refused"   // not kept: a run that asks for it is refused
)

// Promise is one row.
type Promise struct {
	Name  string          `json:"name"`
	Text  string          `json:"text"`
	Cells map[string]Cell `json:"cells"` // by driver; "DRIVER as user" is that of an ordinary user where it is another
}

// Cell is what one driver keeps.
type Cell struct {
	Held Held   `json:"held"`
	How  string `json:"how,omitempty"` // of all but Yes
	Test string `json:"test"`          // folder, test function, and a case of it if need be
}

//go:embed promises.json
var text []byte

// All is the whole table. The caller must not change it.
var All = sync.OnceValue(func() (all []Promise) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		panic(fmt.Sprintf("promises.json: %v", err)) // it is part of this program
	}
	return all
})

// of is the cell of a driver.
func (p Promise) of(driver string, root bool) (c Cell, ok bool) {
	if !root {
		if c, ok = p.Cells[driver+" as user"]; ok {
			return c, true
		}
	}
	c, ok = p.Cells[driver]
	return c, ok
}

// Kept says in words what a driver keeps otherwise than usual, and what it refuses, a line each; and how many promises it simply holds. known is false
// for a driver that is not in the table.
func Kept(driver string, root bool) (lines []string, held int, known bool) {
	for _, p := range All() {
		c, ok := p.of(driver, root)
		switch {
		case !ok:
			continue
		case c.Held == Yes:
			held++
		default:
			lines = append(lines, fmt.Sprintf("%s: %s, %s", p.Name, c.Held, c.How))
		}
		known = true
	}
	return lines, held, known
}

// Summary is the same in one line.
func Summary(driver string, root bool) (summary string, known bool) {
	lines, held, known := Kept(driver, root)
	return strings.Join(append([]string{fmt.Sprintf("%d held", held)}, lines...), "; "), known
}
