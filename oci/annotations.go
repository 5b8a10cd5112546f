package oci

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/internal/nearest"
	"github.com/silk-sandbox/silk/profile"
)

// Prefix begins the annotations that are silk's. Others are the engine's.
const Prefix = "silk."

// maxTimeout is the longest time limit under [DefaultProfile].
const maxTimeout = time.Hour

// settings are the annotations, without Prefix.
var settings = map[string]func(t *translation, value string) error{
	"profile": func(t *translation, v string) error {
		t.Request.Profile = v
		return nil
	},
	"network": func(t *translation, v string) error {
		if !strings.ContainsAny(v, ":.,") {
			t.Request.Network = v
			return nil
		}
		t.Request.Network = profile.NetworkAllowlist
		for host := range strings.SplitSeq(v, ",") {
			t.Request.Hosts = append(t.Request.Hosts, strings.TrimSpace(host))
		}
		return nil
	},
	"timeout": func(t *translation, v string) (err error) {
		t.Request.Limits.Timeout, err = profile.ParseTimeout(v)
		return err
	},
	"memory": func(t *translation, v string) (err error) {
		t.Request.Limits.MemoryBytes, err = profile.ParseBytes(v)
		return err
	},
	"cpus": func(t *translation, v string) (err error) {
		t.Request.Limits.CPUs, err = profile.ParseCPUs(v)
		return err
	},
	"processes": func(t *translation, v string) (err error) {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a number above zero", v)
		}
		t.Request.Limits.Processes = n
		return nil
	},
	"workspace": func(t *translation, v string) (err error) {
		t.Request.Limits.WorkspaceBytes, err = profile.ParseBytes(v)
		return err
	},
	"no-spawn":      func(t *translation, v string) error { return setBool(&t.Request.NoSpawn, v) },
	"deterministic": func(t *translation, v string) error { return setBool(&t.Request.Deterministic, v) },
	"read-only":     func(t *translation, v string) error { return setBool(&t.ReadOnly, v) },
	"require-watch": func(t *translation, v string) error { return setBool(&t.Request.RequireWatch, v) },
}

func setBool(into *bool, v string) error {
	if v != "true" && v != "false" {
		return fmt.Errorf("%q is neither true nor false", v)
	}
	*into = v == "true"
	return nil
}

// annotations applies silk's own.
func (t *translation) annotations() {
	for _, key := range slices.Sorted(maps.Keys(t.spec.Annotations)) {
		name, ok := strings.CutPrefix(key, Prefix)
		if !ok {
			continue
		}
		set, ok := settings[name]
		if !ok {
			known := slices.Sorted(maps.Keys(settings))
			if near := nearest.To(name, known); near != "" {
				t.fault("there is no annotation %s; did you mean %s%s?", printable(key), Prefix, near)
			} else {
				t.fault("there is no annotation %s; there are %s%s", printable(key), Prefix, strings.Join(known, ", "+Prefix))
			}
			continue
		}
		if err := set(t, t.spec.Annotations[key]); err != nil {
			t.fault("annotation %s: %v", key, err)
		}
	}
}

// Annotations are the names of silk's annotations, sorted.
func Annotations() []string {
	names := slices.Sorted(maps.Keys(settings))
	for i, name := range names {
		names[i] = Prefix + name
	}
	return names
}

// printable quotes a name that a terminal might take for a command.
func printable(name string) string {
	if q := strconv.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}
