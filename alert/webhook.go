package alert

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/silk-sandbox/silk/internal/webhook"
)

// Webhook is a server that is told by an HTTP POST of the JSON form, signed as https://www.standardwebhooks.com says: the
// header webhook-signature is "v1," and the base64 of HMAC-SHA256 over webhook-id, webhook-timestamp (Unix seconds) and
// the body, joined by dots. Both attempts have the same id, which is the run and the time of the alert.
type Webhook struct {
	// URL is https, or http to a loopback address: an alert says what is on this host.
	URL string

	// SecretFile holds the key of the signature: text of 16 to 1024 bytes, or "whsec_" and base64, without the white space
	// around it. It must be readable by its owner alone, and is read for each alert.
	SecretFile string

	// Timeout bounds both attempts together. 0: 5 s. At most a minute, for which the end of a run waits.
	Timeout time.Duration
}

const attempts = 2

// Check says what is wrong with w as it stands, without opening anything.
func (w Webhook) Check() error { return webhook.Config(w).Check() }

// hook is the sink of a Webhook.
type hook struct{ *webhook.Hook }

func newWebhook(w Webhook) (hook, error) {
	h, err := webhook.New(webhook.Config(w))
	return hook{h}, err
}

func (h hook) name() string                    { return h.Name() }
func (h hook) timeout() time.Duration          { return h.Timeout() }
func (h hook) check(ctx context.Context) error { return h.Reach(ctx) }

func (h hook) raise(ctx context.Context, a Alert) error {
	body, err := a.MarshalJSON()
	if err != nil {
		return err
	}
	id := "alert_" + a.Run + "_" + strconv.FormatInt(a.At.UnixMilli(), 10)
	var first error
	for left := attempts; ; left-- {
		// The first attempt has half of the time, so that the second has some too.
		deadline, _ := ctx.Deadline()
		one, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		again, err := h.Post(one, id, body)
		cancel()
		switch {
		case err == nil:
			return nil
		case first == nil && again && ctx.Err() == nil:
			first = err
		case first == nil:
			return err
		case first.Error() == err.Error():
			return fmt.Errorf("%w (twice)", err)
		default:
			return fmt.Errorf("%w; then %w", first, err)
		}
	}
}
