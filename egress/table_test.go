package egress

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func rulesOf(t testing.TB, texts ...string) (rules []Rule) {
	t.Helper()
	for _, text := range texts {
		r, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	return rules
}

// world is a resolver that remembers what it was asked.
type world struct {
	names map[string][]string
	asked []string
}

var errNowhere = errors.New("no such host")

func (w *world) resolve(_ context.Context, name string) (addrs []netip.Addr, err error) {
	w.asked = append(w.asked, name)
	for _, a := range w.names[name] {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	if addrs == nil {
		return nil, errNowhere
	}
	return addrs, nil
}

// ask is a query, as a stub resolver makes it.
func ask(t testing.TB, name string, typ dnsmessage.Type, more ...func(*dnsmessage.Message)) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: typ, Class: dnsmessage.ClassINET}},
	}
	for _, f := range more {
		f(&m)
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func answer(t testing.TB, table *Table, query []byte) (dnsmessage.Message, Lookup) {
	t.Helper()
	reply, l := table.Answer(t.Context(), query)
	var m dnsmessage.Message
	if err := m.Unpack(reply); err != nil {
		t.Fatalf("the answer %x: %v", reply, err)
	}
	return m, l
}

// lookup is where a name seems to be.
func lookup(t testing.TB, table *Table, name string) netip.Addr {
	t.Helper()
	m, _ := answer(t, table, ask(t, name+".", dnsmessage.TypeA))
	if len(m.Answers) != 1 {
		t.Fatalf("%s: %v", name, m.GoString())
	}
	return netip.AddrFrom4(m.Answers[0].Body.(*dnsmessage.AResource).A)
}

func TestAllowListAnswersItsNamesOnly(t *testing.T) {
	w := &world{}
	table := New(Config{Rules: rulesOf(t, "api.example.org:443", "*.cdn.example:443", "tcp:192.0.2.1:22"), Resolve: w.resolve})
	edns := func(m *dnsmessage.Message) {
		var h dnsmessage.ResourceHeader
		if err := h.SetEDNS0(4096, 0, true); err != nil {
			t.Fatal(err)
		}
		m.Additionals = append(m.Additionals, dnsmessage.Resource{Header: h, Body: &dnsmessage.OPTResource{Options: []dnsmessage.Option{{Code: 10, Data: []byte("secret!!")}}}})
	}
	for _, test := range []struct {
		name    string
		query   []byte
		rcode   dnsmessage.RCode
		answers int
		refused string
	}{
		{"its name", ask(t, "api.example.org.", dnsmessage.TypeA), 0, 1, ""},
		{"in other case", ask(t, "aPi.ExAmPlE.oRg.", dnsmessage.TypeA), 0, 1, ""},
		{"by IPv6", ask(t, "api.example.org.", dnsmessage.TypeAAAA), 0, 1, ""},
		{"below", ask(t, "a.b.cdn.example.", dnsmessage.TypeA), 0, 1, ""},
		{"TXT", ask(t, "api.example.org.", dnsmessage.TypeTXT), 0, 0, ""},
		{"ANY", ask(t, "api.example.org.", dnsmessage.TypeALL), 0, 0, ""},
		{"HTTPS", ask(t, "api.example.org.", 65), 0, 0, ""},
		{"EDNS", ask(t, "api.example.org.", dnsmessage.TypeA, edns), 0, 1, ""},
		{"two OPT records", ask(t, "api.example.org.", dnsmessage.TypeA, edns, edns), dnsmessage.RCodeFormatError, 0, ""},
		{"another version of EDNS", ask(t, "api.example.org.", dnsmessage.TypeA, edns, func(m *dnsmessage.Message) { m.Additionals[0].Header.TTL |= 1 << 16 }), 0, 0, ""},
		{"another name", ask(t, "example.org.", dnsmessage.TypeA), dnsmessage.RCodeNameError, 0, RefusedName},
		{"a tunnel", ask(t, strings.Repeat("a", 63)+".api.example.org.", dnsmessage.TypeTXT), dnsmessage.RCodeNameError, 0, RefusedName},
		{"an address", ask(t, "1.2.0.192.in-addr.arpa.", dnsmessage.TypePTR), dnsmessage.RCodeNameError, 0, RefusedName},
		{"the root", ask(t, ".", dnsmessage.TypeNS), dnsmessage.RCodeNameError, 0, RefusedName},
		{"another class", ask(t, "api.example.org.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassCHAOS }), dnsmessage.RCodeRefused, 0, ""},
		{"two questions", ask(t, "api.example.org.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) }), dnsmessage.RCodeRefused, 0, ""},
		{"an update", ask(t, "api.example.org.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.OpCode = 5 }), dnsmessage.RCodeNotImplemented, 0, ""},
	} {
		m, l := answer(t, table, test.query)
		var refused *Refusal
		if errors.As(l.Refused, &refused) != (test.refused != "") || refused != nil && refused.Rule != test.refused {
			t.Errorf("%s: refused by %v, want %q", test.name, l.Refused, test.refused)
		}
		if m.RCode != test.rcode || len(m.Answers) != test.answers || m.ID != 7 || !m.Response {
			t.Errorf("%s: %s", test.name, m.GoString())
		}
		if reply, _ := table.Answer(t.Context(), test.query); strings.Contains(string(reply), "secret") {
			t.Errorf("%s: the client's options came back", test.name)
		}
	}
	if w.asked != nil {
		t.Errorf("the world was asked for %q", w.asked)
	}
	for _, query := range [][]byte{nil, []byte("x"), ask(t, "api.example.org.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Response = true })} {
		if reply, _ := table.Answer(t.Context(), query); reply != nil {
			t.Errorf("%x was answered with %x", query, reply)
		}
	}
}

func TestDestination(t *testing.T) {
	w := &world{names: map[string][]string{"public.example": {"93.184.215.14"}, "inside.example": {"10.0.0.1"}}}
	table := New(Config{Rules: rulesOf(t, "a.example:443", "tls:b.example:443", "http:b.example:80", "tcp:c.example:22", "*.d.example:443", "192.0.2.0/24:5432", "[2001:db8::1]:80", "0.0.0.0/0:7"), Resolve: w.resolve, Owner: Owner{Targets: rulesOf(t, "192.0.2.0/24:5432", "[2001:db8::1]:80")}})
	open := New(Config{Open: true, Rules: rulesOf(t, "tls:b.example:443"), Own: []netip.Addr{netip.MustParseAddr("93.184.215.99")}, Resolve: w.resolve})
	at := func(table *Table, name string, port uint16) netip.AddrPort {
		if a, err := netip.ParseAddr(name); err == nil {
			return netip.AddrPortFrom(a, port)
		}
		return netip.AddrPortFrom(lookup(t, table, name), port)
	}
	for _, test := range []struct {
		table *Table
		host  string
		port  uint16
		want  Target
		rule  string
	}{
		{table, "a.example", 443, Target{Name: "a.example", Port: 443}, ""},
		{table, "a.example", 80, Target{}, RefusedPort},
		{table, "b.example", 443, Target{Name: "b.example", Port: 443, Protocol: TLS}, ""},
		{table, "b.example", 80, Target{Name: "b.example", Port: 80, Protocol: HTTP}, ""},
		{table, "c.example", 22, Target{Name: "c.example", Port: 22, Protocol: TCP}, ""},
		{table, "x.d.example", 443, Target{Name: "x.d.example", Port: 443}, ""},
		{table, "192.0.2.9", 5432, Target{Addr: netip.MustParseAddr("192.0.2.9"), Port: 5432, Protocol: TCP}, ""},
		{table, "::ffff:192.0.2.9", 5432, Target{Addr: netip.MustParseAddr("192.0.2.9"), Port: 5432, Protocol: TCP}, ""},
		{table, "192.0.2.9", 5433, Target{}, RefusedAddress},
		{table, "93.184.215.14", 7, Target{Addr: netip.MustParseAddr("93.184.215.14"), Port: 7, Protocol: TCP}, ""}, // of a rule that is wider than the internet
		{table, "10.0.0.1", 7, Target{}, RefusedAddress},
		{table, "169.254.169.254", 7, Target{}, RefusedAddress},
		{table, "2001:db8::1", 80, Target{Addr: netip.MustParseAddr("2001:db8::1"), Port: 80, Protocol: TCP}, ""},
		{table, "93.184.215.14", 443, Target{}, RefusedAddress},
		{table, "198.18.0.1", 53, Target{}, RefusedAddress},
		{table, "198.19.255.255", 443, Target{}, RefusedAddress},
		{table, "2001:2:0:1::100", 443, Target{}, RefusedAddress}, // another network than the names'
		{open, "public.example", 9, Target{Name: "public.example", Port: 9, Protocol: TCP}, ""},
		{open, "b.example", 443, Target{Name: "b.example", Port: 443, Protocol: TLS}, ""},
		{open, "93.184.215.14", 443, Target{Addr: netip.MustParseAddr("93.184.215.14"), Port: 443, Protocol: TCP}, ""},
		{open, "93.184.215.99", 443, Target{}, RefusedAddress},
		{open, "10.0.0.1", 443, Target{}, RefusedAddress},
		{open, "169.254.169.254", 80, Target{}, RefusedAddress},
	} {
		got, err := test.table.Destination(at(test.table, test.host, test.port))
		var refused *Refusal
		if got != test.want || errors.As(err, &refused) != (test.rule != "") || refused != nil && refused.Rule != test.rule {
			t.Errorf("%s port %d: %+v, %v, want %+v, %q", test.host, test.port, got, err, test.want, test.rule)
		}
	}
	for name, refused := range map[string]bool{"inside.example": true, "nowhere.example": false} {
		m, l := answer(t, open, ask(t, name+".", dnsmessage.TypeA))
		if m.RCode != dnsmessage.RCodeNameError || (l.Refused != nil) != refused {
			t.Errorf("%s in an open network: %v, %v", name, m.RCode, l.Refused)
		}
	}
}

func TestAddresses(t *testing.T) {
	w := &world{names: map[string][]string{
		"two.example":    {"10.0.0.1", "93.184.215.14", "2606:4700::1111"},
		"inside.example": {"127.0.0.1", "::ffff:169.254.169.254"},
		"mapped.example": {"::ffff:93.184.215.14"},
		"other.example":  {"10.0.0.9"},
	}}
	table := New(Config{
		Resolve: w.resolve, Own: []netip.Addr{netip.MustParseAddr("93.184.215.99")},
		Owner: Owner{
			Hosts:   map[string]netip.Addr{"mine.example": netip.MustParseAddr("127.0.0.1"), "self.example": netip.MustParseAddr("93.184.215.99")},
			Targets: rulesOf(t, "127.0.0.1/32:8443", "10.0.0.8/29:80"),
		},
	})
	for _, test := range []struct {
		name, want, err string
		port            uint16
	}{
		{"two.example", "93.184.215.14:1 [2606:4700::1111]:1", "", 1},
		{"mapped.example", "93.184.215.14:1", "", 1},
		{"inside.example", "", `leads to 169.254.169.254, which is the metadata service of clouds; egress: targets: ["169.254.169.254/32:1"]`, 1},
		{"inside.example", "127.0.0.1:8443", "", 8443},
		{"mine.example", "127.0.0.1:8443", "", 8443},
		{"mine.example", "", `mine.example leads to 127.0.0.1, which is a loopback address; egress: targets: ["127.0.0.1/32:8444"] in the configuration allows it`, 8444},
		{"self.example", "", "an address of this host", 1},
		{"other.example", "10.0.0.9:80", "", 80},
		{"nowhere.example", "", "resolve nowhere.example: no such host", 1},
	} {
		got, err := table.Addresses(t.Context(), Target{Name: test.name, Port: test.port})
		var texts []string
		for _, a := range got {
			texts = append(texts, a.String())
		}
		if strings.Join(texts, " ") != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s port %d: %v, %v, want %q, %q", test.name, test.port, got, err, test.want, test.err)
		}
	}
	if slices.Contains(w.asked, "mine.example") {
		t.Error("the world was asked for a name that is the owner's")
	}
}

// TestTooManyNames: a sandbox that makes names up below a wildcard takes some memory of ours, not all.
func TestTooManyNames(t *testing.T) {
	table := New(Config{Rules: rulesOf(t, "*.example.org:1")})
	for i := range maxNames + 10 {
		name := strconv.Itoa(i) + ".example.org."
		m, l := answer(t, table, ask(t, name, dnsmessage.TypeA))
		if (len(m.Answers) == 1) != (i < maxNames) || (l.Refused == nil) != (i < maxNames) {
			t.Fatalf("name %d: %v, %v", i, m.RCode, l.Refused)
		}
	}
	if got := lookup(t, table, "7.example.org"); got != netip.MustParseAddr("198.18.1.7") {
		t.Errorf("a name that was there before is at %s", got)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(ask(f, "api.example.org.", dnsmessage.TypeA))
	f.Add(ask(f, "x.cdn.example.", dnsmessage.TypeAAAA))
	f.Add(ask(f, "example.org.", dnsmessage.TypeTXT))
	f.Fuzz(func(t *testing.T, query []byte) {
		table := New(Config{Rules: rulesOf(t, "api.example.org:443", "*.cdn.example:443")})
		reply, l := table.Answer(t.Context(), query)
		if reply == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(reply); err != nil {
			t.Fatalf("%x was answered with %x: %v", query, reply, err)
		}
		if len(m.Answers) > 0 && (l.Refused != nil || !table.ruled(l.Name)) {
			t.Errorf("%q was answered: %s", l.Name, m.GoString())
		}
	})
}
