//go:build unix

package httpapi_test

import (
	"encoding/json"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// source makes choices from the bytes of a fuzzer, and when those are used up from a generator that they seed: the same bytes
// make the same requests.
type source struct {
	data []byte
	rest *rand.Rand
}

func newSource(data []byte) *source {
	h := fnv.New64a()
	h.Write(data)
	return &source{data: data, rest: rand.New(rand.NewPCG(h.Sum64(), 7455))}
}

// under chooses a number from 0 to n-1.
func (s *source) under(n int) int {
	if len(s.data) > 0 && n <= 256 {
		b := s.data[0]
		s.data = s.data[1:]
		return int(b) % n
	}
	return s.rest.IntN(n)
}

// once in n times it is true.
func (s *source) once(n int) bool { return s.under(n) == 0 }

func choose[T any](s *source, list ...T) T { return list[s.under(len(list))] }

// odd are texts that have broken somebody's parser.
var odd = []string{
	"", " ", "0", "-1", "null", "true", "[]", "{}", "..", "../../etc/passwd", "/etc/passwd", "a/../b", "a//b", "a\x00b", "a\nb", "a\r\nX-Evil: 1", "%00", "%2e%2e%2f", "%", "%zz",
	"'; DROP TABLE requests; --", "\" OR 1=1", "$(id)", "{{7*7}}", "<script>alert(1)</script>", "\u202eevil", "e\u0301", "\ufeff", "\U0001f9f5", "\ufffd", "\u0085", "\x7f", "\x1b[31m",
	"ﷺ", "𝕬", "İ", "ß", "NaN", "Infinity", "1e400", "9223372036854775808", "-9223372036854775809", "00", "0x10", "1_000", "１２", "*", "?", "#", "+", ",", ";", "=", "&", "a,b", "99999999999999999999,1",
	strings.Repeat("a", 65), strings.Repeat("é", 300), strings.Repeat("9", 400), strings.Repeat("A", 5000),
}

// oddJSON are values that are rarely what is wanted.
var oddJSON = []string{
	`null`, `true`, `""`, `"x"`, `[]`, `{}`, `[null]`, `{"":null}`, `0`, `-1`, `-0`, `1`, `1.5`, `1.0`, `1e2`, `1e400`, `-1e400`, `1e-400`, `65536`, `2147483648`, `9223372036854775807`, `9223372036854775808`,
	`-9223372036854775809`, `18446744073709551616`, `0.1e1`, `123456789012345678901234567890`, `"\u0000"`, `"\ud800"`, `"\uD83D\uDE00"`, `"` + strings.Repeat(`\u00e9`, 1000) + `"`,
	strings.Repeat(`[`, 500) + strings.Repeat(`]`, 500), strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 200),
}

// value makes a value of a schema, and with faults one that may not fit. at is its place, for what only fits in one place.
func (x *explorer) value(schema map[string]any, at string, faults bool) any {
	if faults && x.once(12) {
		return json.RawMessage(choose(x.source, oddJSON...))
	}
	if known, ok := x.known(at); ok {
		return known
	}
	schema = description().resolve(schema)
	if enum, ok := schema["enum"].([]any); ok && !(faults && x.once(4)) {
		return choose(x.source, enum...)
	}
	kind, _ := schema["type"].(string)
	switch kind {
	case "object":
		return x.object(schema, at, faults)
	case "array":
		list := []any{}
		items, _ := schema["items"].(map[string]any)
		n := x.under(4)
		if limit, ok := number(schema, "maxItems"); ok && faults && x.once(30) && limit < 2000 {
			n = int(limit) + x.under(2)
		}
		for range n {
			list = append(list, x.value(items, at+"[]", faults))
		}
		return list
	case "boolean":
		return x.once(2)
	case "integer", "number":
		return x.number(schema, faults)
	case "string":
		return x.text(schema, faults)
	}
	return json.RawMessage(choose(x.source, oddJSON...))
}

func (x *explorer) object(schema map[string]any, at string, faults bool) any {
	out := map[string]any{}
	required, _ := schema["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(object(schema, "properties"))) {
		needed := slices.Contains(required, any(name))
		if needed && !(faults && x.once(15)) || !needed && x.once(3) {
			out[name] = x.value(object(schema, "properties", name), at+"."+name, faults)
		}
	}
	if faults && x.once(10) {
		out[choose(x.source, odd...)] = json.RawMessage(choose(x.source, oddJSON...))
	}
	return out
}

// number is one of a range, or at its ends, or just beyond.
func (x *explorer) number(schema map[string]any, faults bool) any {
	low, hasLow := number(schema, "minimum")
	high, hasHigh := number(schema, "maximum")
	if !hasHigh {
		high = choose(x.source, low+10, low+1000, 65535, 1<<31, 1<<53)
	}
	list := []float64{low, low + 1, high, float64(int64((low + high) / 2))}
	if faults {
		list = append(list, high+1, -1, 0.5)
		if hasLow {
			list = append(list, low-1)
		}
	}
	n := choose(x.source, list...)
	return json.RawMessage(strconv.FormatFloat(n, 'f', -1, 64))
}

func number(schema map[string]any, key string) (float64, bool) {
	n, ok := schema[key].(json.Number)
	f, err := n.Float64()
	return f, ok && err == nil
}

func (x *explorer) text(schema map[string]any, faults bool) string {
	if pattern, ok := schema["pattern"].(string); ok && !(faults && x.once(3)) {
		return x.matching(pattern)
	}
	text := choose(x.source, odd...)
	if !x.once(3) {
		text = choose(x.source, "a", "a.txt", "main.sh", "hello", "A=1", "dir/b.bin", "aGVsbG8=", "x y", "example.org:443")
	}
	low, _ := number(schema, "minLength")
	high, bounded := number(schema, "maxLength")
	if faults && x.once(5) {
		if bounded && high < 70_000 {
			return strings.Repeat(choose(x.source, "a", "é", "\U0001f9f5"), int(high)+x.under(2))
		}
		return text
	}
	if bounded && len([]rune(text)) > int(high) {
		text = string([]rune(text)[:int(high)])
	}
	for len([]rune(text)) < int(low) {
		text += "0"
	}
	return text
}

// matching makes a text that a pattern matches, if the pattern is of characters, classes and repetitions.
func (x *explorer) matching(pattern string) string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		panic(err)
	}
	var out strings.Builder
	var walk func(*syntax.Regexp)
	walk = func(re *syntax.Regexp) {
		switch re.Op {
		case syntax.OpLiteral:
			out.WriteString(string(re.Rune))
		case syntax.OpCharClass:
			at := 2 * x.under(len(re.Rune)/2)
			out.WriteRune(re.Rune[at] + rune(x.under(int(re.Rune[at+1]-re.Rune[at])+1)))
		case syntax.OpAlternate:
			walk(choose(x.source, re.Sub...))
		case syntax.OpRepeat, syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
			n := max(re.Min, 1)
			for range n {
				walk(re.Sub[0])
			}
		default:
			for _, sub := range re.Sub {
				walk(sub)
			}
		}
	}
	walk(re)
	return out.String()
}

// spoil makes something of JSON text that may be none.
func (x *explorer) spoil(text []byte) []byte {
	switch x.under(12) {
	case 0:
		return text[:x.rest.IntN(len(text))]
	case 1:
		return append(text, choose(x.source, "}", "x", " null", "\x00", "{}")...)
	case 2:
		return append([]byte(choose(x.source, "\ufeff", ")]}'\n", " \n\t", "\x00")), text...)
	case 3: // a name twice
		if s, ok := strings.CutSuffix(string(text), "}"); ok && len(s) > 1 {
			return []byte(s + `,` + strings.TrimPrefix(s, "{") + `}`)
		}
		return nil
	case 4:
		return []byte(strings.ReplaceAll(string(text), "a", "\xff"))
	case 5:
		return []byte(strings.Repeat(`{"files":[`, 20_000))
	case 6:
		return []byte(choose(x.source, oddJSON...))
	case 7:
		return []byte(strings.Repeat(" ", 1<<20) + string(text))
	case 8:
		return []byte(`{"args":[` + strings.Repeat(`"",`, 150_000) + `""]}`)
	case 9:
		return []byte("code=print(1)&profile=test")
	case 10:
		return []byte{0xff, 0xfe, '{', 0, '}', 0}
	}
	return nil
}
