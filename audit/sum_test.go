package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/gowebpki/jcs"
)

// FuzzSum compares our writing of canonical JSON with that of a library.
func FuzzSum(f *testing.F) {
	f.Add("id", int64(1), "run", "sandbox_started", `{"a":1}`, int64(2), int64(3), zeroHash)
	f.Add("", int64(0), "\x00\x1f\b\f\n\r\t\x7f", "\u2028<>&", "\xff\xed\xa0\x80\U0001f9f5", int64(-1), int64(maxExact), "\\\"")
	f.Fuzz(func(t *testing.T, id string, at int64, run, name, data string, created, seq int64, prev string) {
		at, created, seq = at%maxExact, created%maxExact, seq%maxExact
		e := Event{ID: id, Timestamp: at, Run: run, Name: Name(name), Data: []byte(data), CreatedAt: created, Seq: seq, PrevHash: prev}
		text, err := json.Marshal(map[string]any{
			"id": id, "timestamp": at, "intent_id": run, "event": name, "data": data, "created_at": created, "seq": seq, "prev_hash": prev,
		})
		if err != nil {
			t.Fatal(err)
		}
		if text, err = jcs.Transform(text); err != nil {
			t.Fatal(err)
		}
		want := sha256.Sum256(text)
		if got, err := e.sum(); err != nil || got != hex.EncodeToString(want[:]) {
			t.Errorf("got %s, %v; want the hash of %s", got, err, text)
		}
	})
}

func TestSumRefusesWhatJSONCannotSay(t *testing.T) {
	if sum, err := (Event{Seq: maxExact + 1}).sum(); err == nil {
		t.Errorf("got %s", sum)
	}
}
