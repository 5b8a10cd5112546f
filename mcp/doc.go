// Package mcp is the door for agents: a server of the Model Context Protocol whose tools run code in sandboxes.
//
// [New] makes a [Server] on an [Engine]: this host's (package mcp/local) or that of a running `silk serve` ([Remote]). [Server.Run]
// speaks on a transport, such as stdin and stdout, and [Handler] answers streamable HTTP. The tools are run_code, run_files,
// run_status, cancel_run, read_output, list_profiles, plan and get_record; records, artifacts, output and hand-offs are resources.
//
// An agent can only narrow: its requests are those of policy.ClientMCP, which policy refuses as soon as they ask for more than the
// profile and the owner's configuration give. Nothing is ever put before the owner on an agent's behalf.
//
// A run ends with who asked for it. When a call is canceled, its client is gone, or the session of a run in the background ends,
// so does the sandbox. [Server.Close] ends what is left and waits for it.
//
// Answers are made for a model: output is cut to its head and tail, what was left out is said in place, with the call that reads
// it, control characters are gone, and images that are small enough are image content. Everything else is behind read_output.
//
// The package decides nothing about runs and starts no sandbox itself. It is v0, as the tools are.
package mcp
