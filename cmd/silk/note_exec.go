//go:build !server && linux && amd64

package main

// The verbs of notes are in the server's executable: silk itself does not link a Markdown parser.

func (a *app) noteRun(*noteFlags, string) error     { return a.serve() }
func (a *app) noteList(string) error                { return a.serve() }
func (a *app) noteClean(*noteFlags, string) error   { return a.serve() }
func (a *app) noteApprove(*noteFlags, string) error { return a.serve() }
func (a *app) noteWatch(*noteFlags, string) error   { return a.serve() }
