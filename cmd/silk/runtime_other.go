//go:build !linux

package main

import (
	"runtime"

	"github.com/spf13/cobra"
)

func (a *app) runtimeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "runtime", Short: "Be the OCI runtime of Docker, containerd or Kubernetes (on Linux)", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return missingf("container engines that use an OCI runtime are on Linux, and this is %s", runtime.GOOS)
		},
	}
}

func deadContainers(string, bool) ([]string, error) { return nil, nil }

func (a *app) doctorDocker(string, bool) error {
	return missingf("a Docker Engine that uses silk is on Linux, and this is %s", runtime.GOOS)
}

const daemonFile = "/etc/docker/daemon.json"
