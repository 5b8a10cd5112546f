package queue

import "time"

// weight of the newest run in the average: about the last ten count.
const weight = 0.2

// average is an exponential average of how long runs take. Its zero value knows nothing.
type average struct {
	seconds float64
	known   bool
}

func (a *average) add(took time.Duration) {
	s := max(0, took.Seconds()) // a clock that was set back
	if !a.known {
		a.seconds, a.known = s, true
		return
	}
	a.seconds += weight * (s - a.seconds)
}

// wait is how long until more runs have ended, of which so many run at once. Negative: not known.
func (a *average) wait(more, atOnce int) time.Duration {
	switch {
	case more <= 0:
		return 0
	case !a.known:
		return -1
	}
	return time.Duration(float64(more) / float64(max(1, atOnce)) * a.seconds * float64(time.Second))
}
