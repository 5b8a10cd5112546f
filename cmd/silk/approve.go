package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/silk-sandbox/silk/policy"
)

// askApproval asks the user at the terminal for what a flag alone does not grant, and puts a yes into req. Where nobody can be asked req stays
// as it is, and the engine refuses it. what says what it is about, if it is not the command line.
func (a *app) askApproval(h *host, req *policy.Request, what string) {
	plan, err := h.decide(*req)
	var denial *policy.Denial
	if !errors.As(err, &denial) || denial.Rule != policy.RuleApproval || len(denial.Also) > 0 || req.Approve != "" || a.json || !isTerminal(a.in) || !isTerminal(a.err) {
		return
	}
	a.errorf("%s%s: %s, with %s; silk plan with the same flags shows all of it", what, denial.Detail, commandText(plan), networkText(plan))
	fmt.Fprint(a.err, "silk: run it? [y/N] ")
	if answer := strings.ToLower(readLine(a.in)); answer == "y" || answer == "yes" {
		req.Approve = plan.Hash()
	}
}

// readLine reads up to the end of a line, byte by byte: what follows is the program's.
func readLine(r interface{ Read(p []byte) (int, error) }) string {
	var line []byte
	for b := make([]byte, 1); len(line) < 256; {
		if n, err := r.Read(b); n == 0 || err != nil || b[0] == '\n' {
			break
		}
		line = append(line, b[0])
	}
	return strings.TrimSpace(string(line))
}
