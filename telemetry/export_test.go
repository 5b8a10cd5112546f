package telemetry

import "time"

// Quick makes cfg send at once, and try again at once.
func Quick(cfg Config) Config {
	cfg.every, cfg.retry = time.Millisecond, time.Millisecond
	return cfg
}

// MaxRuns is how many runs wait at most.
const MaxRuns = maxRuns
