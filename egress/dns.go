package egress

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// Lookup is what a sandbox has asked for.
type Lookup struct {
	Name    string // lower case, without the last dot; "" if it was no question
	Type    dnsmessage.Type
	Refused error // a [*Refusal]; nil if the name was answered, be it that it does not exist
}

// ttl is how long a sandbox may keep an answer, in seconds. Names keep their addresses as long as the sandbox lives; a short time
// is what programs expect of names that move.
const ttl = 5

// udpSize is what the answers say the resolver takes by UDP (RFC 6891 section 6.2.5).
const udpSize = 1232

// Answer answers a DNS query in place of the world's resolvers: a name that is allowed has addresses of this sandbox's own, every
// other one does not exist, and nothing is asked anywhere, but in an open network whether the name exists. nil is no answer: what came is
// no query.
func (t *Table) Answer(ctx context.Context, query []byte) (reply []byte, l Lookup) {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return nil, l
	}
	answer := dnsmessage.Header{ID: h.ID, Response: true, OpCode: h.OpCode, RecursionDesired: h.RecursionDesired, RecursionAvailable: true}
	questions, err := p.AllQuestions()
	switch {
	case err != nil:
		answer.RCode = dnsmessage.RCodeFormatError
		return build(answer, nil, false, nil), l
	case h.OpCode != 0:
		answer.RCode = dnsmessage.RCodeNotImplemented
		return build(answer, questions, false, nil), l
	case len(questions) != 1 || questions[0].Class != dnsmessage.ClassINET:
		answer.RCode = dnsmessage.RCodeRefused
		return build(answer, questions, false, nil), l
	}
	edns, version, ok := extended(&p)
	switch {
	case !ok:
		answer.RCode = dnsmessage.RCodeFormatError
		return build(answer, questions, false, nil), l
	case version != 0:
		answer.RCode = badVersion
		return build(answer, questions, true, nil), l
	}
	q := questions[0]
	l.Name, l.Type = strings.ToLower(strings.TrimSuffix(q.Name.String(), ".")), q.Type
	resource, rcode, err := t.resource(ctx, l.Name, q)
	answer.RCode, l.Refused = rcode, err
	return build(answer, questions, edns, resource), l
}

// badVersion is BADVERS (RFC 6891 section 9).
const badVersion = 16

// resource is the answer to a question; nil is none of that type.
func (t *Table) resource(ctx context.Context, name string, q dnsmessage.Question) (dnsmessage.ResourceBody, dnsmessage.RCode, error) {
	if !validName(name) || !t.cfg.Open && !t.ruled(name) {
		if err := t.InForce(refuse(RefusedName, "no rule has the name %q", name)); err != nil {
			return nil, dnsmessage.RCodeNameError, err
		}
	}
	if q.Type != dnsmessage.TypeA && q.Type != dnsmessage.TypeAAAA {
		return nil, dnsmessage.RCodeSuccess, nil // whatever else there is about it is not for the sandbox
	}
	if !t.ruled(name) { // in an open network nobody has vouched for it
		_, err := t.Addresses(ctx, Target{Name: name})
		if refused, ok := errors.AsType[*Refusal](err); ok {
			return nil, dnsmessage.RCodeNameError, refused
		}
		if err != nil { // it does not exist, or nobody knows
			return nil, dnsmessage.RCodeNameError, nil
		}
	}
	v4, v6, ok := t.addressOf(name)
	if !ok {
		return nil, dnsmessage.RCodeServerFailure, refuse(RefusedName, "the sandbox has looked up %d names", maxNames)
	}
	if q.Type == dnsmessage.TypeA {
		return &dnsmessage.AResource{A: v4.As4()}, dnsmessage.RCodeSuccess, nil
	}
	return &dnsmessage.AAAAResource{AAAA: v6.As16()}, dnsmessage.RCodeSuccess, nil
}

// extended reads the OPT record of a query (RFC 6891): ok is false if there are two, or what follows the question is no record.
func extended(p *dnsmessage.Parser) (edns bool, version uint8, ok bool) {
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return false, 0, false
	}
	for {
		h, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return edns, version, true
		}
		if err != nil || p.SkipAdditional() != nil || h.Type == dnsmessage.TypeOPT && edns {
			return false, 0, false
		}
		if h.Type == dnsmessage.TypeOPT {
			edns, version = true, uint8(h.TTL>>16)
		}
	}
}

// build writes an answer. Options of a query, such as cookies and the client's own network, are not repeated.
func build(h dnsmessage.Header, questions []dnsmessage.Question, edns bool, resource dnsmessage.ResourceBody) []byte {
	m := dnsmessage.Message{Header: h, Questions: questions}
	m.RCode &= 0xf // the rest of it is in the OPT record
	if resource != nil {
		q := questions[0]
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: ttl}, Body: resource}}
	}
	if edns {
		var opt dnsmessage.ResourceHeader
		if err := opt.SetEDNS0(udpSize, h.RCode, false); err != nil {
			return nil
		}
		m.Additionals = []dnsmessage.Resource{{Header: opt, Body: &dnsmessage.OPTResource{}}}
	}
	reply, err := m.Pack()
	if err != nil {
		return nil // a name that was read can be written; if not, silence is an answer
	}
	return reply
}
