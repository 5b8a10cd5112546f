package jetstream

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// logger passes on what a server says, and hears from it that it is of no use any more: one that cannot write does not
// answer, it only logs.
type logger struct {
	log *slog.Logger

	mu   sync.Mutex
	last error         // the last thing that went wrong
	sick chan struct{} // closed once the server is of no use
	gone bool          // sick is closed
	dead bool          // it gave up its start
}

func newLogger(log *slog.Logger) *logger { return &logger{log: log, sick: make(chan struct{})} }

// fatal are parts of what a server says last, in lower case: filestore.go, stream.go and jetstream.go of nats-server.
var fatal = []string{"critical write error", "will be disabled", "disabling jetstream"}

func (l *logger) hear(format string, v ...any) string {
	text := fmt.Sprintf(format, v...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = errors.New(text)
	for _, part := range fatal {
		if !l.gone && strings.Contains(strings.ToLower(text), part) {
			l.gone = true
			close(l.sick)
		}
	}
	return "JetStream: " + text
}

// trouble is the last thing that went wrong.
func (l *logger) trouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		return errors.New("it does not get ready")
	}
	return l.last
}

// Noticef and the others are the interface that the server wants.
func (l *logger) Noticef(format string, v ...any) {
	l.log.Debug("JetStream: " + fmt.Sprintf(format, v...))
}

func (l *logger) Warnf(format string, v ...any)  { l.log.Warn(l.hear(format, v...)) }
func (l *logger) Errorf(format string, v ...any) { l.log.Error(l.hear(format, v...)) }

// Fatalf does not end the process, as the server's own logger would: startServer looks whether it was called.
func (l *logger) Fatalf(format string, v ...any) {
	l.log.Error(l.hear(format, v...))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
}

func (l *logger) died() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (l *logger) Debugf(string, ...any) {} // not asked for
func (l *logger) Tracef(string, ...any) {}
