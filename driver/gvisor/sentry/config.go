package sentry

import (
	"time"

	"gvisor.dev/gvisor/runsc/config"
)

// newConfig is the runsc configuration of a sandbox without network, gofer, overlay or host files. The rest are
// runsc's defaults: config_test.go holds it against what runsc makes of its flags, whose registration alone would take
// 4 ms of a start.
func newConfig() *config.Config {
	return &config.Config{
		Platform:     "systrap",
		Network:      config.NetworkNone,
		HostSettings: config.HostSettingsIgnore,

		AFXDPUseNeedWakeup:               true,
		AllowLiveTCPMigration:            true,
		AppHugePages:                     true,
		ControlRPCStopTimeout:            15 * time.Second,
		CPUNumFromQuota:                  true,
		DCache:                           -1,
		DebugLogFormat:                   "text",
		FDLimit:                          -1,
		FileAccessMounts:                 config.FileAccessShared,
		GoferNetworkNamespace:            config.GoferNetworkNamespaceNull,
		GVisorGSO:                        true,
		HostGSO:                          true,
		LogFormat:                        "text",
		NetDisconnectOk:                  true,
		NumNetworkChannels:               1,
		NVProxyAllowedDriverCapabilities: "utility,compute",
		PanicSignal:                      -1,
		ProfilingMetricsRate:             1000,
		QDisc:                            config.QDiscFIFO,
		RestoreSpecValidation:            config.RestoreSpecValidationEnforce,
		RootDir:                          "/var/run/runsc",
		RXChecksumOffload:                true,
		SidecarReleaseEnforcementPolicy:  config.SidecarReleaseIfReleaseBuild,
		SidecarUsagePolicy:               config.SidecarUsageDefault,
		StraceLogSize:                    1024,
		Traceback:                        "system",
		WatchdogAction:                   "log",
	}
}
