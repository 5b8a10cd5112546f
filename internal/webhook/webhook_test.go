package webhook

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// Proxies of the environment are never asked, not even for addresses for which net/http would.
func TestNoProxy(t *testing.T) {
	h, err := New(Config{URL: "https://example.org/", SecretFile: "/key"})
	if err != nil {
		t.Fatal(err)
	}
	if transport, ok := h.client.Transport.(*http.Transport); !ok || transport.Proxy != nil {
		t.Error("it has a proxy")
	}
}

// The example of the specification, so that its libraries accept what we sign.
func TestSignature(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := readSecret(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)); got != "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("got %s", got)
	}
}
