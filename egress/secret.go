package egress

import (
	"fmt"
	"slices"
	"strings"
)

// Secret is a credential that is added to the requests of a sandbox to one host. The sandbox never has it: it sees a placeholder.
type Secret struct {
	Name   string `json:"name"`   // of the variable in the sandbox that has the placeholder
	Host   string `json:"host"`   // lower case, without the last dot
	Port   uint16 `json:"port"`   // of Host
	Header string `json:"header"` // of the requests that get it
	Value  string `json:"value,omitempty"`
}

// MaxSecretBytes bounds the value of a secret: servers take headers of 8 KiB.
const MaxSecretBytes = 8 << 10

// ParseSecret reads NAME@HOST:PORT/Header.
func ParseSecret(text string) (Secret, error) {
	name, rest, ok := strings.Cut(text, "@")
	where, header, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 {
		return Secret{}, fmt.Errorf("secret %q is not NAME@HOST:PORT/Header, such as API_TOKEN@api.example.org:443/Authorization", text)
	}
	if !validVariable(name) {
		return Secret{}, fmt.Errorf("secret %q has no name that an environment variable can have", text)
	}
	rule, err := ParseRule(where)
	if err != nil {
		return Secret{}, fmt.Errorf("secret %s: %w", name, err)
	}
	if rule.Name == "" || rule.Below || rule.Protocol == TCP {
		return Secret{}, fmt.Errorf("secret %s is for %s; it must be for one host by its name, to which requests go by HTTP or HTTPS", name, where)
	}
	if !validToken(header) || slices.Contains(ofConnection, strings.ToLower(header)) {
		return Secret{}, fmt.Errorf("secret %s: %q is not the name of a header that can hold it", name, header)
	}
	return Secret{Name: name, Host: rule.Name, Port: rule.Port, Header: header}, nil
}

// ofConnection are headers that say where a request goes and where it ends (RFC 9110 sections 7.2 and 7.6.1, RFC 9112 section 6): a value that is
// not the gateway's own would make another request of it, or none.
var ofConnection = []string{
	"host", "connection", "keep-alive", "proxy-connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect",
}

// String is the secret as [ParseSecret] reads it, without its value.
func (s Secret) String() string { return fmt.Sprintf("%s@%s:%d/%s", s.Name, s.Host, s.Port, s.Header) }

// Placeholder is what the sandbox has in the secret's place.
func (s Secret) Placeholder() string { return "silk-secret-" + s.Name }

// CheckValue says what keeps a value from being sent in a header (RFC 9110 section 5.5).
func (s Secret) CheckValue() error {
	switch {
	case s.Value == "":
		return fmt.Errorf("secret %s is empty", s.Name)
	case len(s.Value) > MaxSecretBytes:
		return fmt.Errorf("secret %s has %d bytes, more than %d", s.Name, len(s.Value), MaxSecretBytes)
	}
	for _, c := range []byte(s.Value) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return fmt.Errorf("secret %s has a line break or another byte that no header can hold", s.Name)
		}
	}
	return nil
}

// InHeader is what the secret's header is to be, where the sandbox has sent old: the first placeholder in it becomes the value, and without
// one the value is all of it. Not each placeholder: a thousand of them would make megabytes of a header.
func (s Secret) InHeader(old string) string {
	if strings.Contains(old, s.Placeholder()) {
		return strings.Replace(old, s.Placeholder(), s.Value, 1)
	}
	return s.Value
}

func validVariable(s string) bool {
	for i, c := range []byte(s) {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// validToken says whether s is a token of RFC 9110 section 5.6.2.
func validToken(s string) bool {
	for _, c := range []byte(s) {
		if !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != ""
}
