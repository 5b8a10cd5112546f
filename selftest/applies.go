package selftest

// What rows need of a driver that not every driver has. A row that needs what a driver lacks shows nothing about it: there the
// act itself is refused, which other rows show, or what is attacked does not exist.
const (
	NeedsMount  = "mount"  // directories that are mounted
	NeedsMemfd  = "memfd"  // files in memory without a name
	NeedsTracer = "tracer" // a program may trace its own children
	NeedsSentry = "sentry" // a kernel of the sandbox's own, with its own files and limits
	NeedsCounts = "counts" // what only the kernel itself refuses is counted, too
)

// lacks are what drivers do not have. docs/security.md says so too.
var lacks = map[string][]string{
	"docker":      {NeedsMount, NeedsMemfd, NeedsTracer, NeedsSentry},
	"qemu":        {NeedsMemfd, NeedsTracer, NeedsSentry, NeedsCounts},
	"firecracker": {NeedsMemfd, NeedsTracer, NeedsSentry, NeedsCounts},
}

// needs is everything that a row needs.
func (r Row) needs() []string {
	all := r.Needs
	if r.Mounted {
		all = append(all[:len(all):len(all)], NeedsMount)
	}
	return all
}

// For is the rows that apply to a driver, and how many do not, by what it lacks.
func For(driver string, rows []Row) (apply []Row, leftOut map[string]int) {
	leftOut = map[string]int{}
	for _, r := range rows {
		ok, lacking := r.Applies(driver)
		if ok {
			apply = append(apply, r)
		} else {
			leftOut[lacking]++
		}
	}
	return apply, leftOut
}

// Applies says whether a row shows something about a driver; lacking is what the driver does not have.
func (r Row) Applies(driver string) (ok bool, lacking string) {
	for _, need := range r.needs() {
		for _, lack := range lacks[driver] {
			if need == lack {
				return false, need
			}
		}
	}
	return true, ""
}
