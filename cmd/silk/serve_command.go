package main

import "github.com/spf13/cobra"

func (a *app) serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Take runs of notes, agents and programs over HTTP",
		Long: `Take runs of notes, agents and programs over HTTP and WebSocket, until SIGTERM or Ctrl-C.

It listens on 127.0.0.1:7455, where every request needs a token (silk token new NAME), and on the unix socket silk.sock in
the state directory, where root and the account of the service need none. The configuration's key "serve" changes that.
What it accepts it finishes: what waited when it was ended waits again when it is started, and nothing is run twice.

With --roles api it accepts and shows but starts nothing, until the next silk serve with the role worker; with --roles worker it
runs what waits and listens on the socket alone.

The API is described at /docs.`,
		Example: `  silk serve
  curl --unix-socket /var/lib/silk/silk.sock http://localhost/v1/runs -H 'Content-Type: application/json' -d '{"language":"python","code":"print(6*7)"}'`,
		Args: needArgs(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error { return a.serve() },
	}
	c.Flags().StringSliceVar(&a.roles, "roles", nil, "what this server does: `LIST` of api and worker (default both)")
	return c
}
