package recipe

import (
	"sync"

	"github.com/silk-sandbox/silk/image"
)

// counter returns a function that adds to a sum and reports it. Safe for concurrent use; progress is called from one
// goroutine at a time.
func counter(progress image.Progress, total int64, what string) func(bytes int64) {
	var (
		mu   sync.Mutex
		done int64
	)
	return func(bytes int64) {
		mu.Lock()
		defer mu.Unlock()
		done += bytes
		progress(done, total, what)
	}
}
