package run

import (
	"context"
	"errors"
	"io/fs"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/workspace"
)

// Causes with which the context of a running sandbox ends. They are compared by value, never by text.
var (
	errTimeout = errors.New("the time limit ended the run")
	errStdin   = errors.New("the input could not be read")
)

// fault is an error whose reason is known where it happens.
type fault struct {
	reason Reason
	err    error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// host marks err as the host's fault, whatever it is made of: a state directory that does not exist is no missing file of
// the user's.
func host(err error) error {
	if err == nil {
		return nil
	}
	return &fault{ReasonHost, err}
}

// refused is the outcome of a run that ended with err before its program ran. canceled says that the caller gave up.
func refused(err error, canceled bool) Outcome {
	var (
		denial *policy.Denial
		mount  *workspace.MountError
		unheld *driver.Unheld
		f      *fault
		req    *policy.RequestError
		limit  *workspace.LimitError
		double *workspace.ConflictError
	)
	out := Outcome{Message: err.Error()}
	switch {
	case errors.As(err, &denial):
		out.Kind, out.Rule = Denied, denial.Rule
	case errors.As(err, &unheld):
		out.Kind, out.Rule, out.Message = Denied, unheld.Promise, unheld.Error()
	case errors.As(err, &mount):
		out.Kind, out.Rule = Denied, policy.RuleMount
	case errors.As(err, &limit):
		out.Kind, out.Rule = Denied, policy.RuleDisk
	case canceled, errors.Is(err, context.Canceled):
		out.Kind, out.Message = Canceled, "canceled before the program ran"
	case errors.As(err, &f):
		out.Kind, out.Reason = Error, f.reason
	case errors.As(err, &req), errors.As(err, &double):
		out.Kind, out.Reason = Error, ReasonUsage
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errors.ErrUnsupported):
		out.Kind, out.Reason = Error, ReasonMissing
	default:
		out.Kind, out.Reason = Error, ReasonHost
	}
	return out
}
