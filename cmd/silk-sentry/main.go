// Command silk-sentry is the sandbox kernel: the process in which silk runs untrusted code. silk starts it; it is of no
// use by hand. See package driver/gvisor/sentry.
package main

import "github.com/silk-sandbox/silk/driver/gvisor/sentry"

func main() { sentry.Main() }
