package httpapi

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestValues(t *testing.T) {
	for text, want := range map[string]int{
		``: 0, `"a,b:[{"`: 0, `["a","b\\",1]`: 3, `{"a":"x\",","b":[]}`: 5, `"never ends \\`: 0,
	} {
		if got := values([]byte(text)); got != want {
			t.Errorf("%s has %d, want %d", text, got, want)
		}
	}
}

// TestBodies: two of the longest bodies at once, short ones beside them, the third waits and then is sent away.
func TestBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBodies()
		enter := func(size int64) (func(), bool) { return b.enter(t.Context(), &http.Request{ContentLength: size}) }
		first, ok := enter(maxBodyBytes)
		if !ok {
			t.Fatal("the first has no room")
		}
		if _, ok := enter(-1); !ok {
			t.Fatal("one of unknown length has no room")
		}
		if _, ok := enter(shortBody); !ok {
			t.Error("a short one waits")
		}
		began := time.Now()
		if _, ok := enter(maxBodyBytes); ok || time.Since(began) != bodyWait {
			t.Errorf("a third one: %t after %v", ok, time.Since(began))
		}
		first()
		if _, ok := enter(maxBodyBytes + 1); !ok {
			t.Error("no room, though one has left")
		}
	})
}
