package queuetest_test

import (
	"testing"

	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/queue/queuetest"
)

func TestStream(t *testing.T) {
	queuetest.TestStream(t, func(*testing.T) queue.Stream { return new(queuetest.Stream) })
}
