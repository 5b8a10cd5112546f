package main

import (
	"runtime"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "version", Short: "Print the version", Args: needArgs(0, 0, "no arguments"),
		Example: "  silk version --json",
		RunE: func(*cobra.Command, []string) error {
			v := versionAnswer{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
			if a.json {
				return a.printJSON(v)
			}
			return a.print("silk %s (%s, %s/%s)", v.Version, v.Go, v.OS, v.Arch)
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
}
