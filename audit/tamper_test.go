//go:build unix

package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/store"
)

// forger changes a trail as somebody who may write every file and knows how it works.
type forger struct {
	*testing.T
	db *store.DB
}

func (f forger) exec(statements string) {
	f.Helper()
	rows, err := f.db.Query("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
	if err != nil {
		f.Fatal(err)
	}
	var drop, restore strings.Builder
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			f.Fatal(err)
		}
		drop.WriteString("DROP TRIGGER " + name + ";")
		restore.WriteString(";" + text + ";")
	}
	if err := rows.Close(); err != nil {
		f.Fatal(err)
	}
	if _, err := f.db.Exec(drop.String() + statements + restore.String()); err != nil {
		f.Fatal(err)
	}
}

func (f forger) file(i int) string {
	f.Helper()
	names := files(f.T, f.db)
	if i >= len(names) {
		f.Fatalf("there is no file %d of %v", i, names)
	}
	return filepath.Join(Dir(f.db), names[i])
}

func (f forger) read(i int) []byte {
	f.Helper()
	data, err := os.ReadFile(f.file(i))
	if err != nil {
		f.Fatal(err)
	}
	return data
}

func (f forger) write(i int, data []byte) {
	f.Helper()
	if err := os.WriteFile(f.file(i), data, 0o600); err != nil {
		f.Fatal(err)
	}
}

func (f forger) remove(i int) {
	f.Helper()
	if err := os.Remove(f.file(i)); err != nil {
		f.Fatal(err)
	}
}

// lines changes the lines of a file: the header, the events, the seal. The seal is made anew if reseal says so.
func (f forger) lines(i int, reseal bool, change func(lines [][]byte) [][]byte) {
	f.Helper()
	lines := change(unpack(f.T, f.read(i)))
	if reseal {
		var last Event
		if err := json.Unmarshal(lines[len(lines)-2], &last); err != nil {
			f.Fatal(err)
		}
		sum := sha256.Sum256(bytes.Join(lines[:len(lines)-1], nil))
		lines[len(lines)-1] = f.line(seal{last.Seq, last.Hash, int64(len(lines) - 2), hex.EncodeToString(sum[:])})
	}
	f.write(i, pack(f.T, lines))
}

func (f forger) line(v any) []byte {
	f.Helper()
	text, err := line(v)
	if err != nil {
		f.Fatal(err)
	}
	return text
}

// rechain changes the event of line n and gives it and all that follow in its file hashes that fit.
func (f forger) rechain(n int, change func(*Event)) func([][]byte) [][]byte {
	return func(lines [][]byte) [][]byte {
		prev := ""
		for i := n; i < len(lines)-1; i++ {
			var e Event
			if err := json.Unmarshal(lines[i], &e); err != nil {
				f.Fatal(err)
			}
			if i == n {
				change(&e)
			} else {
				e.PrevHash = prev
			}
			var err error
			if e.Hash, err = e.sum(); err != nil {
				f.Fatal(err)
			}
			prev, lines[i] = e.Hash, f.line(e)
		}
		return lines
	}
}

func harmless(e *Event) { e.Data = []byte(`{"intentId":"nothing happened"}`) }

// TestVerifyFindsForgery changes a trail of fifty events, of which four files hold ten each and the table ten.
func TestVerifyFindsForgery(t *testing.T) {
	for _, test := range []struct {
		name  string
		forge func(f forger)
		seq   int64  // where the trail is said to break
		why   string // a part of what is said
	}{
		{"the newest file is removed", func(f forger) { f.remove(3) }, 31, "missing with segment"},
		{"a file in the middle is removed", func(f forger) { f.remove(1) }, 11, "missing with segment"},
		{"the oldest file is removed", func(f forger) { f.remove(0) }, 1, "missing with segment"},
		{"the oldest file is removed, and from the list", func(f forger) {
			f.remove(0)
			f.exec("DELETE FROM audit_segments WHERE last_seq = 10")
		}, 1, "header"},
		{"the oldest file is said to be removed by retention", func(f forger) {
			f.remove(0)
			f.exec("UPDATE audit_segments SET state = 'removed' WHERE last_seq = 10")
		}, 1, "no event says"},
		{"the newest file is removed, and from the list", func(f forger) {
			f.remove(3)
			f.exec("DELETE FROM audit_segments WHERE last_seq = 40")
		}, 31, "the next one is 41"},
		{"a file in the middle is said to be removed", func(f forger) {
			f.remove(1)
			f.exec("UPDATE audit_segments SET state = 'removed' WHERE last_seq = 20")
		}, 11, "missing with segment"},
		{"a file is cut off", func(f forger) { data := f.read(1); f.write(1, data[:len(data)-20]) }, 11, "not a whole segment"},
		{"a file is empty", func(f forger) { f.write(2, nil) }, 21, "not a whole segment"},
		{"a byte of a file is changed", func(f forger) { data := f.read(1); data[len(data)/2] ^= 1; f.write(1, data) }, 11, "not a whole segment"},
		{"bytes follow a file", func(f forger) { f.write(1, append(f.read(1), "more"...)) }, 21, "not a whole segment"},
		{"a second frame follows a file", func(f forger) { f.write(1, append(f.read(1), pack(f, [][]byte{[]byte("{}\n")})...)) }, 21, "something follows its seal"},
		{"two files are swapped", func(f forger) { a, b := f.read(1), f.read(2); f.write(1, b); f.write(2, a) }, 11, "header"},
		{"a file has the name of another", func(f forger) { f.write(1, f.read(2)) }, 11, "header"},
		{"a file is renamed", func(f forger) {
			if err := os.Rename(f.file(1), filepath.Join(Dir(f.db), "old.jsonl.zst")); err != nil {
				f.Fatal(err)
			}
		}, 11, "missing with segment"},
		{"an event is changed, compressed again", func(f forger) {
			f.lines(1, false, func(lines [][]byte) [][]byte {
				lines[3] = bytes.Replace(lines[3], []byte(`"n":0`), []byte(`"n":1`), 1)
				return lines
			})
		}, 13, "does not match its hash"},
		{"an event is changed, sealed again", func(f forger) {
			f.lines(1, true, func(lines [][]byte) [][]byte {
				lines[3] = bytes.Replace(lines[3], []byte(`"n":0`), []byte(`"n":1`), 1)
				return lines
			})
		}, 13, "does not match its hash"},
		{"an event is changed with its hash, sealed again", func(f forger) {
			f.lines(1, true, func(lines [][]byte) [][]byte {
				rest := lines[4]
				lines = f.rechain(3, harmless)(lines)
				lines[4] = rest
				return lines
			})
		}, 14, "does not continue"},
		{"the rest of a file is made anew", func(f forger) { f.lines(1, true, f.rechain(3, harmless)) }, 11, "not as it was sealed"},
		{"the rest of a file is made anew, and its listing", func(f forger) {
			f.lines(1, true, f.rechain(3, harmless))
			var s seal
			lines := unpack(f, f.read(1))
			if err := json.Unmarshal(lines[len(lines)-1], &s); err != nil {
				f.Fatal(err)
			}
			f.exec("UPDATE audit_segments SET last_hash = '" + s.LastHash + "' WHERE last_seq = 20")
		}, 21, "header"},
		{"the last event of the last file is made anew, and its listing", func(f forger) {
			f.lines(3, true, f.rechain(10, harmless))
			var s seal
			lines := unpack(f, f.read(3))
			if err := json.Unmarshal(lines[len(lines)-1], &s); err != nil {
				f.Fatal(err)
			}
			f.exec("UPDATE audit_segments SET last_hash = '" + s.LastHash + "' WHERE last_seq = 40")
		}, 41, "does not continue"},
		{"an event is removed, sealed again", func(f forger) {
			f.lines(1, true, func(lines [][]byte) [][]byte { return slices.Delete(lines, 5, 6) })
		}, 15, "the next one is 16"},
		{"the last event of a file is removed, sealed again", func(f forger) {
			f.lines(1, true, func(lines [][]byte) [][]byte { return slices.Delete(lines, 10, 11) })
		}, 11, "not as it was sealed"},
		{"two events are swapped, sealed again", func(f forger) {
			f.lines(1, true, func(lines [][]byte) [][]byte { lines[4], lines[5] = lines[5], lines[4]; return lines })
		}, 14, "the next one is 15"},
		{"an event is there twice, sealed again", func(f forger) {
			f.lines(1, true, func(lines [][]byte) [][]byte { return slices.Insert(lines, 5, lines[4]) })
		}, 15, "the next one is 14"},
		{"a field is added that no hash covers", func(f forger) {
			f.lines(1, true, func(lines [][]byte) [][]byte {
				lines[4] = append([]byte(`{"note":"approved",`), lines[4][1:]...)
				return lines
			})
		}, 14, "not written as silk writes it"},
		{"a field is there twice", func(f forger) {
			f.lines(1, true, func(lines [][]byte) [][]byte {
				lines[4] = append([]byte(`{"event":"sandbox_completed",`), lines[4][1:]...)
				return lines
			})
		}, 14, "not written as silk writes it"},
		{"the seal is removed", func(f forger) {
			f.lines(1, false, func(lines [][]byte) [][]byte { return lines[:len(lines)-1] })
		}, 21, "ends before its seal"},
		{"the seal has another sum", func(f forger) {
			f.lines(1, false, func(lines [][]byte) [][]byte {
				lines[11] = bytes.Replace(lines[11], []byte(`"events":10`), []byte(`"events":11`), 1)
				return lines
			})
		}, 21, "its seal is"},
		{"the oldest event of the table is removed", func(f forger) { f.exec("DELETE FROM audit_events WHERE seq = 41") }, 41, "missing"},
		{"an event of the table is changed", func(f forger) { f.exec("UPDATE audit_events SET data = '{}' WHERE seq = 45") }, 45, "does not match its hash"},
		{"the table is emptied", func(f forger) { f.exec("DELETE FROM audit_events") }, 41, "always in the table"},
		{"the database is another one", func(f forger) { f.exec("DELETE FROM audit_events; DELETE FROM audit_segments") }, 1, "later events than the database knows"},
		{"a moved event is back in the table, changed, and the table made anew after it", func(f forger) {
			events := list(f.T, f.db, Filter{Limit: 11}) // 50 to 40
			prev := ""
			insert := "DELETE FROM audit_events;"
			for i := len(events) - 1; i >= 0; i-- {
				e := events[i]
				if prev == "" {
					harmless(&e)
				} else {
					e.PrevHash = prev
				}
				var err error
				if e.Hash, err = e.sum(); err != nil {
					f.Fatal(err)
				}
				prev = e.Hash
				insert += fmt.Sprintf("INSERT INTO audit_events VALUES ('%s', %d, '%s', '%s', '%s', %d, %d, '%s', '%s');",
					e.ID, e.Timestamp, e.Run, e.Name, e.Data, e.CreatedAt, e.Seq, e.PrevHash, e.Hash)
			}
			f.exec(insert)
		}, 40, "not the event that its segment ends with"},
		{"a moved event is back in the table, changed", func(f forger) {
			f.exec("INSERT INTO audit_events SELECT 'x', timestamp, intent_id, event, data, created_at, 40, prev_hash, 'x' FROM audit_events WHERE seq = 41")
		}, 40, "does not match its hash"},
	} {
		t.Run(test.name, func(t *testing.T) {
			db := long(t, 50)
			rotate(t, db, small)
			if got := verified(t, db); got.Seq != 50 || got.Segments != 4 {
				t.Fatalf("before the change: %+v", got)
			}
			test.forge(forger{t, db})
			report, err := Verify(t.Context(), db)
			var broken *BrokenError
			if !errors.As(err, &broken) || broken.Seq != test.seq || !strings.Contains(broken.Why, test.why) {
				t.Errorf("got %v, want a break at %d: %s", err, test.seq, test.why)
			}
			if report.Seq >= 50 {
				t.Errorf("the whole part ends with %d", report.Seq)
			}
		})
	}
}

// Nothing in a trail can show that its end is missing, or that all of it was made anew. A head that was kept can.
func TestVerifyAgainstAHead(t *testing.T) {
	for _, test := range []struct {
		name  string
		forge func(f forger)
		seq   int64
		why   string
	}{
		{"the newest events are cut off", func(f forger) { f.exec("DELETE FROM audit_events WHERE seq > 48") }, 49, "the trail ends with 48"},
		{"the newest event is made anew", func(f forger) {
			last := list(f.T, f.db, Filter{Limit: 1})[0]
			harmless(&last)
			var err error
			if last.Hash, err = last.sum(); err != nil {
				f.Fatal(err)
			}
			f.exec("UPDATE audit_events SET data = '" + string(last.Data) + "', hash = '" + last.Hash + "' WHERE seq = 50")
		}, 50, "made anew"},
	} {
		t.Run(test.name, func(t *testing.T) {
			db := long(t, 50)
			rotate(t, db, small)
			head := verified(t, db).Head
			test.forge(forger{t, db})
			verified(t, db) // without it nothing is seen
			var broken *BrokenError
			if _, err := Verify(t.Context(), db, head); !errors.As(err, &broken) || broken.Seq != test.seq || !strings.Contains(strings.ReplaceAll(broken.Why, "built", "made"), test.why) {
				t.Errorf("got %v, want a break at %d: %s", err, test.seq, test.why)
			}
		})
	}
	db := long(t, 50)
	middle := list(t, db, Filter{Before: 16, Limit: 1})[0]
	rotate(t, db, small)
	verified(t, db, Head{middle.Seq, middle.Hash}) // a head in a file
	var broken *BrokenError
	if _, err := Verify(t.Context(), db, Head{middle.Seq, middle.PrevHash}); !errors.As(err, &broken) || broken.Seq != 15 {
		t.Errorf("another head in a file: %v", err)
	}
}

// A removal by hand after one by retention is found: only the end that an event names is one.
func TestVerifyFindsRemovalBesidesRetention(t *testing.T) {
	db := long(t, 50)
	rotate(t, db, small)
	f := forger{t, db}
	first := f.file(0)
	kept := f.read(0)
	policy := small
	policy.Retention = 1
	rotate(t, db, policy)
	verified(t, db)
	grow(t, db, 40)
	rotate(t, db, small)
	if len(files(t, db)) < 2 {
		t.Fatalf("too few files: %v", files(t, db))
	}
	// A file that retention removed and somebody put back is no part of the trail.
	if err := os.WriteFile(first, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if report := verified(t, db); report.Gap == nil || report.Gap.LastSeq != 40 {
		t.Errorf("got %+v", report)
	}
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	f.remove(0)
	f.exec("UPDATE audit_segments SET state = 'removed' WHERE state = 'sealed' AND last_seq = (SELECT min(last_seq) FROM audit_segments WHERE state = 'sealed')")
	var broken *BrokenError
	if _, err := Verify(t.Context(), db); !errors.As(err, &broken) || broken.Seq != 1 {
		t.Errorf("got %v", err)
	}
}
