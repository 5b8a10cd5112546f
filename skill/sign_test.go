package skill

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/silk-sandbox/silk/internal/secret"
)

func keyOf(t testing.TB) Key {
	t.Helper()
	key, err := ParseKey(secret.New(testKey))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestKeccak has the vectors of the Keccak team's submission (KeccakKAT, ShortMsgKAT_256) and of Ethereum's empty code.
func TestKeccak(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
		"\xcc":                              "eead6dbfc7340a56caedc044696a168870549a6a7f6f56961e84a54bd9970b8a",
		"abc":                               "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45",
		"Transfer(address,address,uint256)": "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
	} {
		if got := hex.EncodeToString(keccak256([]byte(text))); got != want {
			t.Errorf("keccak256(%q) = %s, want %s", text, got, want)
		}
	}
}

// TestCanonical has the example of RFC 8785, section 3.2.2: numbers, escapes and the order of keys.
func TestCanonical(t *testing.T) {
	got, err := jcs.Transform([]byte(`{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
		"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}`))
	const want = `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		testKey:                       testAddress,
		strings.Repeat("0", 63) + "1": "0x7e5f4552091a69125d5dfcb7b8c2659029395bdf",
	} {
		if key, err := ParseKey(secret.New(text)); err != nil || key.Address() != want {
			t.Errorf("address %s, %v; want %s", key.Address(), err, want)
		}
	}
	for _, text := range []string{"", "0x", "1", strings.Repeat("0", 64), strings.Repeat("f", 64), strings.Repeat("g", 64), testKey + "00"} {
		if _, err := ParseKey(secret.New(text)); err == nil || len(text) > 4 && strings.Contains(err.Error(), text[2:]) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestEthers verifies what ethers has signed, byte for byte: testdata/ethers.mjs made testdata/ethers.json.
func TestEthers(t *testing.T) {
	text, err := os.ReadFile("testdata/ethers.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, Key, Address, Canonical, Hash string
		Manifest                            json.RawMessage
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		m, err := Parse(v.Manifest)
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		if m.Hash() != v.Hash {
			t.Errorf("%s: hash %s, want %s", v.Name, m.Hash(), v.Hash)
		}
		if err := m.Verify(); err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
		key, err := ParseKey(secret.New(v.Key))
		if err != nil || !strings.EqualFold(key.Address(), v.Address) {
			t.Errorf("%s: address %s, want %s: %v", v.Name, key.Address(), v.Address, err)
		}
		want := m.Signature
		address := m.Publisher.Address
		if m.Sign(key); strings.EqualFold(m.Publisher.Address, address) && address == m.Publisher.Address && m.Signature != want { // deterministic: RFC 6979
			t.Errorf("%s: signature %s, want %s", v.Name, m.Signature, want)
		}
	}
	if len(vectors) < 3 {
		t.Errorf("only %d vectors", len(vectors))
	}
}

func TestVerify(t *testing.T) {
	signed := good()
	signed.Sign(keyOf(t))
	raw := func(m Manifest) []byte {
		b, err := hex.DecodeString(m.Signature[2:])
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	with := func(change func(b []byte) []byte) func(*Manifest) {
		return func(m *Manifest) { m.Signature = "0x" + hex.EncodeToString(change(raw(*m))) }
	}
	upper := func(b []byte) []byte { // the other s that fits, with the other v
		order, _ := hex.DecodeString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141")
		borrow := 0
		for i := 31; i >= 0; i-- {
			d := int(order[i]) - int(b[32+i]) - borrow
			borrow = 0
			if d < 0 {
				d, borrow = d+256, 1
			}
			b[32+i] = byte(d)
		}
		b[64] ^= 27 ^ 28
		return b
	}
	for _, tt := range []struct {
		name   string
		change func(*Manifest)
		ok     bool
	}{
		{"as it is", func(*Manifest) {}, true},
		{"the address in upper case", func(m *Manifest) {
			m.Publisher.Address = "0x" + strings.ToUpper(m.Publisher.Address[2:])
			m.Sign(keyOf(t))
		}, true},
		{"v of 0 or 1", with(func(b []byte) []byte { b[64] -= 27; return b }), true},
		{"the signature in upper case", func(m *Manifest) { m.Signature = "0x" + strings.ToUpper(m.Signature[2:]) }, true},
		{"another name", func(m *Manifest) { m.Name = "other" }, false},
		{"another limit", func(m *Manifest) { m.Sandbox.MemoryMb++ }, false},
		{"another file", func(m *Manifest) { m.Files[0].SHA256 = strings.Repeat("b", 64) }, false},
		{"files in another order", func(m *Manifest) { m.Files[0], m.Files[1] = m.Files[1], m.Files[0] }, false},
		{"another address", func(m *Manifest) { m.Publisher.Address = "0x" + strings.Repeat("1", 40) }, false},
		{"the other v", with(func(b []byte) []byte { b[64] ^= 27 ^ 28; return b }), false},
		{"a v of neither", with(func(b []byte) []byte { b[64] = 29; return b }), false},
		{"a changed r", with(func(b []byte) []byte { b[3] ^= 1; return b }), false},
		{"a changed s", with(func(b []byte) []byte { b[40] ^= 1; return b }), false},
		{"s in the upper half", with(upper), false},
		{"too short", with(func(b []byte) []byte { return b[:64] }), false},
		{"too long", with(func(b []byte) []byte { return append(b, 0) }), false},
		{"an odd digit", func(m *Manifest) { m.Signature += "0" }, false},
		{"all zero", with(func(b []byte) []byte { return make([]byte, 65) }), false},
		{"all ones", with(func(b []byte) []byte { return []byte(strings.Repeat("\xff", 65)) }), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := signed
			m.Files = append([]File{}, signed.Files...)
			tt.change(&m)
			if err := m.Verify(); (err == nil) != tt.ok {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.key")
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteKey(path, key); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if got, err := ReadKey(path); err != nil || got.Address() != key.Address() {
		t.Errorf("read %v, %v", got, err)
	}
	if err := WriteKey(path, key); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a key was overwritten: %v", err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKey(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others can read: %v", err)
	}
	if _, err := ReadKey(t.TempDir()); err == nil {
		t.Error("a directory is a key")
	}
}

func TestKeyIsNotPrinted(t *testing.T) {
	key := keyOf(t)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		for _, v := range []any{key, &key, struct{ K Key }{key}} {
			if got := fmt.Sprintf(verb, v); strings.Contains(strings.ToLower(got), "ac0974") {
				t.Errorf("%s shows it: %s", verb, got)
			}
		}
	}
}
