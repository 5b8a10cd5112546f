package skill

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// shape says what is wrong with a decoded JSON value; at is its pointer (RFC 6901).
type shape func(at string, v any) []Fault

// member is one key of an object.
type member struct {
	key string
	is  shape
}

// The shapes of a manifest and of one without a signature are those of [Schema], which a test compares them with. Whole numbers are
// JSON Schema's: 128.0 is one. They are made when they are needed: every silk would pay for them at its start.
var (
	signed = sync.OnceValue(func() shape { return object(members()...) })
	draft  = sync.OnceValue(func() shape { all := members(); return object(all[:len(all)-1]...) })
)

// members are those of a manifest, the signature last.
func members() []member {
	return []member{
		{"version", word(Version)},
		{"name", matching(`^[a-z0-9-]{1,64}$`, "1 to 64 of a-z, 0-9 and -")},
		{"publisher", object(
			member{"name", matching(`(?s).`, "not empty")},
			member{"address", matching(`^0x[0-9a-fA-F]{40}$`, "0x and 40 hex digits")},
			member{"contact", matching(email, "an e-mail address")},
		)},
		{"permissions", object(
			member{"txActions", distinct(array(0, word(TxActions...)))},
			member{"chains", array(0, whole(1, maxSafe))},
			member{"networkAccess", boolean},
			member{"filesystemAccess", boolean},
		)},
		{"sandbox", object(
			member{"memoryMb", whole(1, MaxMemoryMb)},
			member{"timeoutMs", whole(MinTimeoutMs, MaxTimeoutMs)},
			member{"allowSpawn", boolean},
		)},
		{"files", array(1, object(
			member{"path", matching(`(?s).`, "not empty")},
			member{"sha256", matching(`^[0-9a-f]{64}$`, "64 lower-case hex digits")},
		))},
		{"signature", matching(`^0x[0-9a-fA-F]+$`, "0x and hex digits")},
	}
}

// email is a dot-atom at a domain of at least two labels: RFC 5322 section 3.4.1 without quoting, comments and address literals.
const email = `^[A-Za-z0-9!#$%&'*+/=?^_` + "`" + `{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_` + "`" + `{|}~-]+)*@([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$`

// maxSafe is the largest whole number of which JSON, whose numbers are doubles (RFC 8785 section 3.2.2.3), has the next one too.
const maxSafe = 1<<53 - 1

func object(members ...member) shape {
	return func(at string, v any) (faults []Fault) {
		have, ok := v.(map[string]any)
		if !ok {
			return fault(at, "must be an object")
		}
		var keys []string
		for _, m := range members {
			keys = append(keys, m.key)
			if value, ok := have[m.key]; ok {
				faults = append(faults, m.is(at+"/"+m.key, value)...)
			} else {
				faults = append(faults, Fault{at + "/" + m.key, "is missing"})
			}
		}
		var unknown []string
		for key := range have {
			if !slices.Contains(keys, key) {
				unknown = append(unknown, key)
			}
		}
		slices.Sort(unknown)
		for _, key := range unknown {
			faults = append(faults, Fault{at + "/" + pointerKey(key), "is not known; there are " + strings.Join(keys, ", ")})
		}
		return faults
	}
}

func array(least int, item shape) shape {
	return func(at string, v any) (faults []Fault) {
		list, ok := v.([]any)
		if !ok {
			return fault(at, "must be a list")
		}
		if len(list) < least {
			return fault(at, fmt.Sprintf("must have at least %d", least))
		}
		for i, v := range list {
			faults = append(faults, item(at+"/"+strconv.Itoa(i), v)...)
		}
		return faults
	}
}

// distinct is list without an item twice. Items are compared as JSON's strings; what is none is the list's own fault.
func distinct(list shape) shape {
	return func(at string, v any) []Fault {
		faults := list(at, v)
		items, _ := v.([]any)
		seen := map[string]bool{}
		for i, item := range items {
			if s, ok := item.(string); ok && seen[s] {
				faults = append(faults, Fault{at + "/" + strconv.Itoa(i), "is there already"})
			} else if ok {
				seen[s] = true
			}
		}
		return faults
	}
}

func word(words ...string) shape {
	return func(at string, v any) []Fault {
		if s, ok := v.(string); ok && slices.Contains(words, s) {
			return nil
		}
		if len(words) == 1 {
			return fault(at, fmt.Sprintf("must be %q", words[0]))
		}
		return fault(at, "must be one of "+strings.Join(words, ", "))
	}
}

func matching(pattern, means string) shape {
	re := regexp.MustCompile(pattern)
	return func(at string, v any) []Fault {
		s, ok := v.(string)
		if !ok {
			return fault(at, "must be a string, "+means)
		}
		if !re.MatchString(s) {
			return fault(at, "must be "+means)
		}
		return nil
	}
}

func whole(least, most int64) shape {
	return func(at string, v any) []Fault {
		n, ok := v.(json.Number)
		if ok {
			// The text is canonical: whole numbers below 1e21 have neither point nor exponent (ECMA-262, Number::toString).
			if i, err := n.Int64(); err == nil && i >= least && i <= most {
				return nil
			}
		}
		return fault(at, fmt.Sprintf("must be a whole number from %d to %d", least, most))
	}
}

func boolean(at string, v any) []Fault {
	if _, ok := v.(bool); !ok {
		return fault(at, "must be true or false")
	}
	return nil
}

func fault(at, message string) []Fault { return []Fault{{at, message}} }

// pointerKey is a key as a step of a pointer (RFC 6901 section 3), cut short: it is whatever somebody wrote.
func pointerKey(key string) string {
	const most = 100
	if len(key) > most {
		key = strings.ToValidUTF8(key[:most], "") + "..."
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
