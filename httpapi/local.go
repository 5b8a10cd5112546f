package httpapi

import (
	"context"
	"net"
	"net/http"
)

// Local makes server one for connections of the service's unix socket: who asks there is the owner. The listener must have let
// through nobody else.
func Local(server *http.Server) *http.Server {
	server.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return context.WithValue(ctx, localKey{}, true) }
	return server
}
