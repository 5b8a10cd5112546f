package queue

// WithStep lets tests of the package's users stand between two steps.
func (c Config) WithStep(step func(step, run string)) Config {
	c.step = step
	return c
}

// WithSync has tests decide whether the table comes to the disk.
func (c Config) WithSync(sync func() error) Config {
	c.sync = sync
	return c
}

// Intervals, for tests with a fake clock.
const (
	PollEvery   = pollEvery
	NotifyEvery = notifyEvery
)
