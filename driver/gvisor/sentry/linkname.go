package sentry

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"gvisor.dev/gvisor/pkg/fd"
	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/pkg/sentry/ktime"
	"gvisor.dev/gvisor/pkg/timing"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/specutils"

	"github.com/silk-sandbox/silk/driver/gvisor/wire"
)

// Unexported parts of gVisor that we use as they are. The module version is pinned in go.mod, and linkname_test.go
// fails when a new one changes them.

// loaderRun is Loader.Run without the result channel that only runsc's control server reads.
//
//go:linkname loaderRun gvisor.dev/gvisor/runsc/boot.(*Loader).run
func loaderRun(*boot.Loader) error

//go:linkname bootCreateProcessArgs gvisor.dev/gvisor/runsc/boot.createProcessArgs
func bootCreateProcessArgs(id string, spec *specs.Spec, conf *config.Config, creds *auth.Credentials, k *kernel.Kernel, pidns *kernel.PIDNamespace) (kernel.CreateProcessArgs, error)

//go:linkname bootGetRootCredentials gvisor.dev/gvisor/runsc/boot.getRootCredentials
func bootGetRootCredentials(spec *specs.Spec, conf *config.Config, userNs *auth.UserNamespace) *auth.Credentials

// seccheckInitOnce guards the registration of all of seccheck's points (12-17 ms). We use its sinks directly and none
// of its named points, so firing the Once empty skips the registration.
//
//go:linkname seccheckInitOnce gvisor.dev/gvisor/pkg/sentry/seccheck.initOnce
var seccheckInitOnce sync.Once

// precompiledPrograms holds the Sentry's own seccomp filters. The published module ships none, and compiling them at
// each start costs up to 256 ms.
//
//go:linkname precompiledPrograms gvisor.dev/gvisor/runsc/boot/filter.precompiledPrograms
var precompiledPrograms map[string]precompiledseccomp.Program

// stubFilters holds the seccomp filters of stub processes: patches/0006-stub-filters-ahead.patch.
//
//go:linkname stubFilters gvisor.dev/gvisor/pkg/sentry/platform/systrap.stubFilters
var stubFilters map[string]precompiledseccomp.Program

// timerDue is told of expirations: patches/0007-clocks-that-stand-still.patch.
//
//go:linkname timerDue gvisor.dev/gvisor/pkg/sentry/ktime.Due
var timerDue atomic.Pointer[func(ktime.SampledClock, ktime.Time)]

// loaderFields are the unexported fields of boot.Loader that carry a run's data.
type loaderFields struct {
	kernel   **kernel.Kernel             // Loader.k
	procArgs *kernel.CreateProcessArgs   // Loader.root.procArgs
	execFD   **fd.FD                     // Loader.root.execFD
	goferFDs *[]*fd.FD                   // Loader.root.goferFDs
	mounts   *[]specutils.GoferMountConf // Loader.root.goferMountConfs
	cores    *uint                       // Loader.k.applicationCores
}

// fieldsOf finds the fields, or says which one is missing or has another type than we were built for.
func fieldsOf(l *boot.Loader) (f loaderFields, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("this gVisor's boot.Loader is not the one silk was written for: %v", r)
		}
	}()
	f.kernel = field[*kernel.Kernel](l, "k")
	f.procArgs = field[kernel.CreateProcessArgs](l, "root", "procArgs")
	f.execFD = field[*fd.FD](l, "root", "execFD")
	f.goferFDs = field[[]*fd.FD](l, "root", "goferFDs")
	f.mounts = field[[]specutils.GoferMountConf](l, "root", "goferMountConfs")
	if *f.kernel != nil { // a test has none
		f.cores = field[uint](*f.kernel, "applicationCores")
	}
	return f, nil
}

func field[T any](of any, path ...string) *T {
	v := reflect.ValueOf(of).Elem()
	for _, name := range path {
		v = v.FieldByName(name)
		if !v.IsValid() {
			panic("no field " + name)
		}
	}
	if want := reflect.TypeFor[T](); v.Type() != want {
		panic(fmt.Sprintf("field %v is a %v, not a %v", path, v.Type(), want))
	}
	return (*T)(unsafe.Pointer(v.UnsafeAddr()))
}

// stepsOf returns the points that gVisor's own code has reached on t, which it keeps for its debug log.
func stepsOf(t *timing.Timer) []wire.Step {
	root := *field[*timing.Timeline](t, "root")
	points := *field[[]timing.MidPoint](root, "midpoints")
	steps := make([]wire.Step, len(points))
	for i := range points {
		steps[i] = wire.Step{Name: "gvisor: " + *field[string](&points[i], "name"), At: field[time.Time](&points[i], "when").UnixNano()}
	}
	return steps
}
