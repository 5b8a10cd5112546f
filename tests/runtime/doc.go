// Package runtime tests silk as an OCI runtime, as a user meets it: the built executable, driven by hand as containerd's shim drives
// it, and by a Docker Engine (tools/dockerd starts one).
package runtime
