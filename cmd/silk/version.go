package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "version", Short: "Print the version", Args: needArgs(0, 0, "no arguments"),
		Example: "  silk version --json",
		RunE: func(*cobra.Command, []string) error {
			v := versionAnswer{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Gvisor: gvisorVersion()}
			if a.json {
				return a.printJSON(v)
			}
			return a.print("silk %s (%s, %s/%s%s)", v.Version, v.Go, v.OS, v.Arch, tail(", gvisor ", v.Gvisor))
		},
	}
	return a.jsonFlag(c)
}

// versionAnswer is the JSON of `silk version`.
type versionAnswer struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Gvisor  string `json:"gvisor,omitempty"` // version of the sandbox kernel's module, if this build knows it
}

func gvisorVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, dep := range info.Deps {
		if dep.Path == "gvisor.dev/gvisor" {
			return dep.Version
		}
	}
	return ""
}
