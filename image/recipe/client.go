package recipe

import (
	"net"
	"net/http"
	"net/url"
	"time"
)

// Time limits of downloads. There is none for a whole file: what counts is that bytes keep coming.
const (
	dialTimeout   = 20 * time.Second
	headerTimeout = 60 * time.Second
	stallTimeout  = 60 * time.Second
)

// client is an HTTP client that also reads file URLs, which a local mirror may have.
func client(proxy func(*http.Request) (*url.URL, error)) *http.Client {
	transport := &http.Transport{
		Proxy:                 proxy,
		DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: headerTimeout,
		MaxIdleConnsPerHost:   workers,
		IdleConnTimeout:       time.Minute,
		DisableCompression:    true, // sizes and ranges are those of the file
		ForceAttemptHTTP2:     true,
	}
	transport.RegisterProtocol("file", http.NewFileTransport(http.Dir("/")))
	return &http.Client{Transport: transport}
}
