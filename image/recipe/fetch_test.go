package recipe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// blob is content that is large enough to break in the middle.
var blob = bytes.Repeat([]byte("0123456789abcdef"), 64<<10)

func blobItem(t *testing.T, url string) item {
	t.Helper()
	sum := sha256.Sum256(blob)
	return item{
		label: "package blob 1.0", path: filepath.Join(t.TempDir(), "debs", hex.EncodeToString(sum[:])+".deb"),
		size: int64(len(blob)), hash: sha256.New, sum: sum[:], url: url + "/blob",
	}
}

func testFetcher() *fetcher {
	f := newFetcher(client(nil), func(int64) {})
	f.backoff = time.Millisecond
	return f
}

// cut answers with the beginning of data and then breaks the connection.
func cut(w http.ResponseWriter, data []byte, n int) {
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data[:n])
	if err := http.NewResponseController(w).Flush(); err != nil {
		panic(err)
	}
	panic(http.ErrAbortHandler)
}

func TestFetch(t *testing.T) {
	tests := []struct {
		name    string
		intrude func(times int, w http.ResponseWriter, r *http.Request) bool
		want    string // part of the error; "" is success
		gone    bool
	}{
		{name: "plain"},
		{name: "three server errors", intrude: func(times int, w http.ResponseWriter, _ *http.Request) bool {
			if times <= 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return times <= 3
		}},
		{name: "server errors for ever", want: "package blob 1.0: 503", intrude: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}},
		{name: "forbidden is not tried again", want: "403", intrude: func(times int, w http.ResponseWriter, _ *http.Request) bool {
			if times > 1 {
				return false
			}
			w.WriteHeader(http.StatusForbidden)
			return true
		}},
		{name: "gone", gone: true, intrude: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusNotFound)
			return true
		}},
		{name: "broken many times, a little further each time", intrude: func(times int, w http.ResponseWriter, r *http.Request) bool {
			if times > 20 {
				return false
			}
			from, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"))
			if err != nil {
				cut(w, blob, 1000)
			}
			w.Header().Set("Content-Range", "bytes "+strconv.Itoa(from)+"-/*")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(blob[from : from+1000])
			return true
		}},
		{name: "a server that ignores ranges", intrude: func(times int, w http.ResponseWriter, r *http.Request) bool {
			if times == 1 {
				cut(w, blob, 1000)
			}
			r.Header.Del("Range")
			return false
		}},
		{name: "a server that sends another range", intrude: func(times int, w http.ResponseWriter, _ *http.Request) bool {
			switch times {
			case 1:
				cut(w, blob, 1000)
			case 2:
				w.Header().Set("Content-Range", "bytes 5-/*")
				w.WriteHeader(http.StatusPartialContent)
				return true
			}
			return false
		}},
		{name: "more than the lock says", want: "more bytes", intrude: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write(append(bytes.Clone(blob), "x"...))
			return true
		}},
		{name: "other bytes, of the right length", want: "the lock says", intrude: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write(bytes.Repeat([]byte("x"), len(blob)))
			return true
		}},
		{name: "other bytes, once", intrude: func(times int, w http.ResponseWriter, _ *http.Request) bool {
			if times == 1 {
				_, _ = w.Write(bytes.Repeat([]byte("x"), len(blob)))
			}
			return times == 1
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newArchive(t)
			a.files["/blob"] = blob
			times := 0
			if tt.intrude != nil {
				a.intrude = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
					times++
					return tt.intrude(times, w, r)
				}
			}
			it := blobItem(t, a.URL)
			gone, err := testFetcher().all(t.Context(), []item{it})
			if (len(gone) > 0) != tt.gone {
				t.Errorf("gone = %v, want %v", gone, tt.gone)
			}
			switch {
			case tt.want == "" && err != nil:
				t.Fatal(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Fatalf("error = %v, want %q in it", err, tt.want)
			}
			have, err := it.cached()
			if err != nil || have != (tt.want == "" && !tt.gone) {
				t.Errorf("cached = %v, %v", have, err)
			}
		})
	}
}

func TestFetchGoesOn(t *testing.T) {
	for _, left := range []struct{ name, file string }{
		{"what a cancelled download left", ".part"},
		{"what a killed process left", ".999999999-1.part"}, // beyond pid_max, see proc(5)
	} {
		t.Run(left.name, func(t *testing.T) {
			a := newArchive(t)
			a.files["/blob"] = blob
			it := blobItem(t, a.URL)
			if err := os.MkdirAll(filepath.Dir(it.path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(it.path+left.file, blob[:500_000], 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := testFetcher().all(t.Context(), []item{it}); err != nil {
				t.Fatal(err)
			}
			if n := a.count(func(r string) bool { return r == "/blob bytes=500000-" }); n != 1 || a.count(func(string) bool { return true }) != 1 {
				t.Errorf("requests = %q, want one for the rest", a.requests)
			}
			onlyFile(t, it.path)
		})
	}
}

func TestFetchCancelKeepsThePart(t *testing.T) {
	a := newArchive(t)
	it := blobItem(t, a.URL)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user has had enough")
	a.intrude = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		w.Header().Set("Content-Length", strconv.Itoa(len(blob)))
		_, _ = w.Write(blob[:1000])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	}
	f := testFetcher()
	f.report = func(n int64) {
		if n > 0 {
			cancel(why)
		}
	}
	if _, err := f.all(ctx, []item{it}); !errors.Is(err, why) {
		t.Errorf("error = %v, want the cause of the cancellation", err)
	}
	onlyFile(t, it.path+".part")
}

func TestFetchStall(t *testing.T) {
	a := newArchive(t)
	a.files["/blob"] = blob
	times := 0
	a.intrude = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if times++; times > 1 {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(blob)))
		_, _ = w.Write(blob[:1000])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	}
	f := testFetcher()
	f.stall = 50 * time.Millisecond
	it := blobItem(t, a.URL)
	if _, err := f.all(t.Context(), []item{it}); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, it.path)
}

func TestDiskFullSaysWhatToDo(t *testing.T) {
	err := diskError("/cache", &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	if !errors.As(err, new(*permanentError)) || !strings.Contains(err.Error(), "free some space") || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error = %v", err)
	}
}

func TestDamagedCacheIsFetchedAgain(t *testing.T) {
	a := newArchive(t)
	a.files["/blob"] = blob
	it := blobItem(t, a.URL)
	if _, err := testFetcher().all(t.Context(), []item{it}); err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(blob)
	damaged[len(damaged)/2] ^= 1
	if err := os.WriteFile(it.path, damaged, 0o644); err != nil {
		t.Fatal(err)
	}
	if have, err := it.cached(); have || err != nil {
		t.Fatalf("cached = %v, %v, want it to be gone", have, err)
	}
	if _, err := os.Stat(it.path); !missing(err) {
		t.Errorf("the damaged file is still there: %v", err)
	}
}

// onlyFile checks that the directory of path holds path and nothing else.
func onlyFile(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
		t.Errorf("the cache holds %v, want only %s", entries, filepath.Base(path))
	}
}
