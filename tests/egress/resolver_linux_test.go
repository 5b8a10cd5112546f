package egress

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// zone is where names lead. A name that is not there leads where those below one of its parents do.
var zone = map[string][]string{
	"api.test":        {"93.184.215.14", "2606:4700::14"},
	"evilapi.test":    {"93.184.215.15"},
	"other.test":      {"93.184.215.15"},
	"*.other.test":    {"93.184.215.15"},
	"*.wild.test":     {"93.184.215.16"},
	"wild.test":       {"93.184.215.16"},
	"tlsonly.test":    {"93.184.215.14"},
	"httponly.test":   {"93.184.215.14"},
	"six.test":        {"2606:4700::14"},
	"redirect.test":   {"93.184.215.14"},
	"private10.test":  {"10.0.0.5"},
	"private172.test": {"172.16.0.5"},
	"private192.test": {"192.168.1.5"},
	"ula.test":        {"fd00::5"},
	"cgnat.test":      {"100.64.0.5"},
	"linklocal.test":  {"169.254.1.5"},
	"metadata.test":   {"169.254.169.254"},
	"metadata6.test":  {"fd00:ec2::254"},
	"docs.test":       {"198.51.100.5"},
	"reserved.test":   {"240.0.0.5"},
	"loopback.test":   {"127.0.0.1"},
	"loopback6.test":  {"::1"},
	"zero.test":       {"0.0.0.0"},
	"self.test":       {host4},
	"self6.test":      {host6},
	"mapped.test":     {"::ffff:10.0.0.5"},
	"nat64.test":      {"64:ff9b::a00:5"},
	"sixtofour.test":  {"2002:a00:5::1"},
	"mixed.test":      {"10.0.0.5", "93.184.215.14"},
}

// resolver is one that a host asks. It remembers what it was asked.
type resolver struct {
	*journal

	mu    sync.Mutex
	times map[string]int // queries for A, by name
}

func newResolver(j *journal) *resolver { return &resolver{journal: j, times: map[string]int{}} }

// serve answers at a port until it is closed.
func (r *resolver) serve(ctx context.Context, addr string) error {
	var lc net.ListenConfig
	udp, err := lc.ListenPacket(ctx, "udp", addr)
	if err != nil {
		return err
	}
	tcp, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	go func() {
		b := make([]byte, 64<<10)
		for {
			n, from, err := udp.ReadFrom(b)
			if err != nil {
				return
			}
			if reply := r.answer(b[:n]); reply != nil {
				_, _ = udp.WriteTo(reply, from)
			}
		}
	}()
	go accept(tcp, func(c net.Conn) {
		var size [2]byte
		for {
			if _, err := io.ReadFull(c, size[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(c, query); err != nil {
				return
			}
			reply := r.answer(query)
			if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
				return
			}
		}
	})
	return nil
}

func (r *resolver) answer(query []byte) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		r.note("resolver", fmt.Sprintf("what is no query: %x", query))
		return nil
	}
	q := m.Questions[0]
	r.note("resolver", fmt.Sprintf("%s %s", q.Type, q.Name))
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	addrs, known := r.lookup(strings.ToLower(strings.TrimSuffix(q.Name.String(), ".")), q.Type)
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, text := range addrs {
		addr := netip.MustParseAddr(text)
		h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}
		switch {
		case q.Type == dnsmessage.TypeA && addr.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: addr.As4()}})
		case q.Type == dnsmessage.TypeAAAA && !addr.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	reply, err := m.Pack()
	if err != nil {
		r.note("resolver", err.Error())
		return nil
	}
	return reply
}

// lookup is what there is about a name. Below rebind.test names are public when they are first asked for, and the host's own from then on.
func (r *resolver) lookup(name string, typ dnsmessage.Type) (addrs []string, known bool) {
	if strings.HasSuffix(name, ".rebind.test") {
		r.mu.Lock()
		defer r.mu.Unlock()
		if typ == dnsmessage.TypeA {
			r.times[name]++
		}
		if r.times[name] > 1 {
			return []string{"127.0.0.1"}, true
		}
		return []string{"93.184.215.14"}, true
	}
	addrs, known = zone[name]
	for parent := name; !known && parent != ""; {
		_, parent, _ = strings.Cut(parent, ".")
		addrs, known = zone["*."+parent]
	}
	return addrs, known
}
