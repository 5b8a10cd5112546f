//go:build unix

package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
)

// request is one request and what is known about it.
type request struct {
	op      *operation
	role    auth.Role // "" none
	method  string
	ids     map[string]string // of the path
	path    string
	query   string
	headers http.Header
	body    []byte // nil: none

	// wrong are the places that the description does not allow: the answer names one of them.
	wrong []string
	// refused are statuses, one of which must come of what is wrong with the request as a whole. Empty: nothing is.
	refused []int
}

// step sends one request and looks at what comes back.
func (x *explorer) step() {
	q := x.request()
	r, err := http.NewRequest(q.method, x.url, nil)
	if err != nil {
		x.Fatal(err)
	}
	u, err := url.Parse(x.url + q.path)
	if err != nil { // no client can send that
		return
	}
	u.RawQuery = q.query
	ctx, cancel := context.WithTimeout(x.Context(), patience)
	defer cancel()
	r = r.WithContext(ctx)
	r.URL, r.Header = u, q.headers
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
		r.Header.Del("Host")
	}
	if q.body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(q.body)), int64(len(q.body))
		if x.once(10) {
			r.ContentLength = -1
		}
	}
	if q.role != "" {
		r.Header.Set("Authorization", "Bearer "+x.secrets[q.role])
	}
	if strings.HasSuffix(q.op.path, "/stream") && q.method == http.MethodGet && x.once(3) {
		x.watch(q, r)
		return
	}
	resp, err := x.client.Do(r)
	switch {
	case err == nil:
		x.check(q, resp, readAll(x, resp))
	case errors.Is(err, context.DeadlineExceeded):
		x.Errorf("%s: no answer in %v", q, patience)
	case len(q.body) > 1<<20: // the server has answered and closed before it read all of it: RFC 9112 section 9.6
	case strings.Contains(err.Error(), "invalid header field") || strings.Contains(err.Error(), "invalid Host"):
	default:
		x.Errorf("%s: %v", q, err)
	}
}

// watch opens a WebSocket, sends some commands, and reads what comes.
func (x *explorer) watch(q *request, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 200*time.Millisecond) // a run may go on and on
	defer cancel()
	conn, resp, err := websocket.Dial(r.Context(), r.URL.String(), &websocket.DialOptions{
		HTTPClient: x.client, HTTPHeader: r.Header, Host: r.Host, Subprotocols: []string{choose(x.source, api.Subprotocol, "silk.v9", "x")},
	})
	if err != nil {
		if resp != nil {
			x.check(q, resp, readAll(x, resp))
		}
		return
	}
	defer conn.CloseNow()
	x.allowed(q, resp)
	for range x.under(4) {
		text, err := json.Marshal(x.value(description().command, "command", x.once(2)))
		if err != nil {
			x.Fatal(err)
		}
		if x.once(10) {
			text = x.spoil(text)
		}
		if err := conn.Write(ctx, choose(x.source, websocket.MessageText, websocket.MessageText, websocket.MessageBinary), text); err != nil {
			break // it has closed
		}
	}
	conn.SetReadLimit(-1)
	for {
		_, text, err := conn.Read(ctx)
		if err != nil {
			if websocket.CloseStatus(err) == websocket.StatusInternalError {
				x.Fatalf("%s: the stream broke: %v", q, err)
			}
			return
		}
		x.leaks(q, resp, text)
		v, err := decodeJSON(text)
		if err == nil {
			err = description().frame.Validate(v)
		}
		if err != nil || x.Failed() {
			x.Fatalf("%s: frame %.500s: %v", q, text, err)
		}
	}
}

// readAll reads an answer: of events those that are there, since a run may never end.
func readAll(x *explorer, resp *http.Response) []byte {
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		lines := bufio.NewReader(resp.Body)
		stop := time.AfterFunc(200*time.Millisecond, func() { resp.Body.Close() })
		defer stop.Stop()
		text, _ := io.ReadAll(lines) // it ends, or is closed
		return text
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil && resp.StatusCode != http.StatusRequestEntityTooLarge {
		x.Errorf("read answer %d: %v after %d bytes", resp.StatusCode, err, len(text))
	}
	return text
}

// request makes a request for some operation: two of three are as described, of the others a thing or two is not.
func (x *explorer) request() *request {
	q := &request{op: choose(x.source, description().ops...), headers: http.Header{}, ids: map[string]string{}}
	q.role, q.method = choose(x.source, auth.Owner, auth.Owner, auth.Runner, auth.Runner, auth.Viewer, other, ""), q.op.method
	faults := x.once(3)
	q.path = q.op.path
	query := url.Values{}
	for _, p := range q.op.params {
		x.param(q, p, query, faults)
	}
	if faults && x.once(6) {
		name := choose(x.source, "nonsense", "Limit", "limit[]", "ticket", "__proto__", "é", "$filter")
		if !slices.ContainsFunc(q.op.params, func(p param) bool { return p.name == name }) {
			query.Add(name, choose(x.source, odd...))
			if !strings.HasSuffix(q.op.path, "/stream") { // which are not the library's: what they do not know they do not read
				q.wrong = append(q.wrong, "query."+name)
			}
			if name == "ticket" && query.Get(name) != "" {
				q.refused = []int{http.StatusUnauthorized, http.StatusTooManyRequests}
			}
		}
	}
	q.query = query.Encode()
	if q.op.body != nil {
		x.body(q, faults)
	}
	if x.once(4) {
		x.around(q)
	}
	return q
}

// param sets one parameter.
func (x *explorer) param(q *request, p param, query url.Values, faults bool) {
	if p.in != "path" && !p.required && !x.once(3) {
		return
	}
	if p.in != "path" && p.required && faults && x.once(8) {
		q.wrong = append(q.wrong, p.in+"."+p.name)
		return
	}
	if p.name == "ticket" && !x.once(20) { // one that is no good is all that it can be here
		return
	}
	text, ok := x.knownParam(p)
	if !ok {
		switch v := x.value(p.schema, p.in+"."+p.name, faults).(type) {
		case string:
			text = v
		case json.RawMessage:
			text = string(v)
		default:
			text = choose(x.source, odd...)
		}
	}
	if !p.fits(text) && (text != "" || p.in == "path") { // what is empty is not given
		q.wrong = append(q.wrong, p.in+"."+p.name)
	}
	switch p.in {
	case "path":
		q.ids[p.name] = text
		q.path = strings.Replace(q.path, "{"+p.name+"}", url.PathEscape(text), 1)
		if text == "" || text == "." || text == ".." || strings.Contains(text, "/") { // another path
			q.refused = []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusUnprocessableEntity, http.StatusOK, http.StatusConflict}
		}
	case "query":
		query.Add(p.name, text)
		if p.name == "ticket" && text != "" {
			q.refused = []int{http.StatusUnauthorized, http.StatusTooManyRequests}
		}
		if faults && x.once(15) {
			query.Add(p.name, choose(x.source, odd...)) // the first one counts
		}
	case "header":
		q.headers.Set(p.name, text)
	}
}

// fits says whether text is a value of p.
func (p param) fits(text string) bool {
	var v any = text
	if kind := p.schema["type"]; kind == "integer" || kind == "number" {
		n, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil || strings.TrimSpace(text) != text {
			return false
		}
		v = n
	}
	return p.check.Validate(v) == nil
}

// knownParam gives parameters values that mean something, mostly.
func (x *explorer) knownParam(p param) (string, bool) {
	if x.once(8) {
		return "", false
	}
	switch p.name {
	case "run", "session", "token":
		if ids := x.ids[p.name]; len(ids) > 0 {
			return choose(x.source, ids...), true
		}
	case "path":
		return choose(x.source, "a.txt", "b.txt", "d/c\xff", "a.txt/", "../a.txt", ".", "/a.txt"), true
	case "Idempotency-Key":
		return choose(x.source, "one", "two", "three"), true
	case "cursor":
		return choose(x.source, x.ids["run"]...), true
	}
	return "", false
}

// body makes the body.
func (x *explorer) body(q *request, faults bool) {
	text, err := json.Marshal(x.value(q.op.body, "body", faults))
	if err != nil {
		x.Fatalf("make a body for %s: %v", q.op.id, err)
	}
	q.headers.Set("Content-Type", choose(x.source, "application/json", "application/json", "application/json; charset=utf-8"))
	if faults && x.once(5) {
		text = x.spoil(text)
	}
	q.body = text
	if faults && x.once(15) {
		q.headers["Content-Type"] = []string{choose(x.source, "text/plain", "application/x-www-form-urlencoded", "application/xml", "application/cbor", "application/json/x", "é", "multipart/form-data; boundary=x", "")}
		if q.headers.Get("Content-Type") != "" { // what nobody names is taken for JSON
			q.refused = append(q.refused, 400, 413, 415, 422) // 422: an empty body
		}
	}
	if len(text) == 0 {
		q.body, q.refused = nil, append(q.refused, 400, 422)
		return
	}
	v, err := decodeJSON(text)
	if err != nil {
		q.refused = append(q.refused, 400, 413, 422)
		return
	}
	if len(text) > 1<<20 && q.op.id != "create-run" && q.op.id != "send-input" { // which take more
		q.refused = append(q.refused, 413)
	}
	q.wrong = append(q.wrong, wrongs(q.op.bodyCheck, "body", v)...)
}

// around changes what is around a request.
func (x *explorer) around(q *request) {
	if strings.HasSuffix(q.op.path, "/stream") && x.once(3) { // half a handshake
		q.headers.Set("Upgrade", "websocket")
		for _, header := range [][2]string{{"Connection", "Upgrade"}, {"Sec-WebSocket-Version", "13"}, {"Sec-WebSocket-Key", "too short"}} {
			if !x.once(4) {
				q.headers.Set(header[0], choose(x.source, header[1], header[1], "12"))
			}
		}
		return
	}
	switch x.under(10) {
	case 0:
		q.method = choose(x.source, "PUT", "PATCH", "DELETE", "POST", "GET", "HEAD", "OPTIONS", "TRACE", "BREW", "get")
	case 1:
		q.headers.Set("Host", choose(x.source, "evil.example", "localhost", "127.0.0.1:1", "localhost.evil.example"))
	case 2:
		q.headers.Set("Origin", choose(x.source, "https://evil.example", "app://obsidian.md", "null", "app://obsidian.md.evil.example"))
	case 3:
		q.headers.Set("Accept", choose(x.source, "text/html", "application/cbor", "*/*;q=0", "nonsense", ""))
	case 4:
		q.headers.Set("Range", choose(x.source, "bytes=0-0", "bytes=-1", "bytes=5-2", "bytes=0-,0-,0-,0-", "bytes=99999999999999999999-", "lines=1-2", "bytes="+strings.Repeat("0-0,", 2000)+"1-1"))
	case 5:
		q.headers.Set(choose(x.source, "If-None-Match", "If-None-Match", "If-Match", "If-Range", "If-Modified-Since", "If-Unmodified-Since"), choose(x.source, "Mon, 30 Nov 2020 02:29:01 GMT", "*", `"x"`, `W/"x"`, "nonsense", strings.Repeat(`"x",`, 1000)))
	case 6:
		q.headers.Set("Last-Event-ID", choose(x.source, "0,0", "1,0", ",", "1", "-1,-1", "9223372036854775807,0", "x,y", "1,2,3", strings.Repeat("9", 400)+",0"))
	case 7:
		q.headers.Set("X-Forwarded-For", "10.0.0.1")
		q.headers.Set("X-HTTP-Method-Override", "DELETE")
		q.headers.Set("Accept-Encoding", choose(x.source, "gzip", "br", "identity;q=0", "*;q=0"))
	case 8:
		q.headers.Set("Expect", "100-continue")
	case 9:
		if q.role == "" && x.once(2) { // ten of them, and the address is slowed down
			q.headers.Set("Authorization", choose(x.source, "Bearer ", "Basic eDp5", "Bearer silk_"+strings.Repeat("A", 43), "Bearer "+strings.Repeat("x", 9000), "bearer\tx"))
		}
	}
	if host := q.headers.Get("Host"); strings.Contains(host, "evil") {
		q.refused = []int{http.StatusMisdirectedRequest}
	} else if origin := q.headers.Get("Origin"); origin != "" && origin != "app://obsidian.md" {
		q.refused = []int{http.StatusForbidden}
	}
}
