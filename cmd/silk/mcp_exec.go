//go:build !server && linux && amd64

package main

// mcp becomes the server's executable, as serve does, and for the same reason.
func (a *app) mcp(mcpFlags) error { return a.serve() }
