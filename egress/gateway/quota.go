package gateway

import (
	"errors"
	"sync/atomic"
)

// errQuota ends the connections of a sandbox that has had its bytes.
var errQuota = errors.New("the sandbox has sent and received as much as it may")

type quota struct{ left int64 }

// take says whether n more bytes may pass.
func (q *quota) take(n int) error {
	if atomic.AddInt64(&q.left, -int64(n)) < 0 {
		return errQuota
	}
	return nil
}

// firstOf is the first error that there is, as it is: readers compare with io.EOF.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
