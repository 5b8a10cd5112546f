package main

import (
	"github.com/spf13/cobra"
)

// mcpFlags are those of `silk mcp`.
type mcpFlags struct {
	http    string
	running int
}

func (a *app) mcpCommand() *cobra.Command {
	var f mcpFlags
	c := &cobra.Command{
		Use: "mcp", Short: "Let agents run code in sandboxes: a server of the Model Context Protocol", Args: needArgs(0, 0, "no arguments, or install"),
		Long: `Let agents run code in sandboxes: a server of the Model Context Protocol on stdin and stdout, until its client is gone.

It runs on this host, or, with --server, on a running silk serve. An agent can ask for less than a profile and the
configuration's grants give, never for more: such a request is refused, and nobody is asked. What it has begun ends with it.

With --http ADDRESS it answers streamable HTTP there instead, where every request needs a token (silk token new NAME) and
pages need an origin of serve: origins: in the configuration. The address must be one of this host.

silk mcp install writes the entry into an agent's configuration file.`,
		Example: `  silk mcp install --for claude-code
  silk mcp --server unix:///var/lib/silk/silk.sock
  silk mcp --http 127.0.0.1:7456`,
		RunE: func(*cobra.Command, []string) error { return a.mcp(f) },
	}
	c.Flags().StringVar(&f.http, "http", "", "answer streamable HTTP at `ADDRESS`, 127.0.0.1:7456 say, in place of stdin and stdout")
	c.Flags().IntVar(&f.running, "running", 0, "runs at once of one client, more wait (default the processors of this host; 32 with --server)")
	c.AddCommand(a.mcpInstallCommand())
	return c
}
