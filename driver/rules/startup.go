package rules

// Entry is a line of the start-up list: files outside every tree that runtimes open before a program has done anything.
type Entry struct {
	Name   string // with everything below it
	Hidden bool   // answered with ENOENT ([FileProbe]) instead of opened ([FileStartup])
	Reason string
}

// Startup is the start-up list. The first entry that covers a name counts. A name on the way to one of them is a
// directory and may be opened.
func Startup() []Entry { return startup }

var startup = []Entry{
	{Name: "/sys/devices/system/cpu/possible", Reason: "glibc and OpenBLAS count processors"},
	{Name: "/sys/devices/system/cpu/online", Reason: "glibc: sysconf(_SC_NPROCESSORS_ONLN)"},
	{Name: "/sys/devices/system/cpu/present", Reason: "hwloc and Go count processors"},
	{Name: "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", Reason: "Go's runtime sizes its arenas"},
	{Name: "/sys/kernel/mm/transparent_hugepage/enabled", Hidden: true, Reason: "jemalloc and Java ask for it"},
	{Name: "/sys/kernel/mm/hugepages", Hidden: true, Reason: "Java lists page sizes"},
	{Name: "/sys/devices/system/cpu", Hidden: true, Reason: "node and Go probe frequencies and caches"},
	{Name: "/sys/devices/system/node", Hidden: true, Reason: "NUMA probes of OpenBLAS and Java"},
	{Name: "/sys/fs/cgroup", Hidden: true, Reason: "node, Go and Java look for limits"},
	{Name: "/sys/bus/pci", Hidden: true, Reason: "Chromium looks for a GPU"},

	{Name: "/proc/cpuinfo", Reason: "numpy, OpenBLAS and Java look for instruction sets; Python counts processors"},
	{Name: "/proc/meminfo", Reason: "free, node and sysconf(_SC_PHYS_PAGES)"},
	{Name: "/proc/stat", Reason: "glibc counts processors; top, vmstat"},
	{Name: "/proc/loadavg", Reason: "getloadavg(3): make -l, uptime"},
	{Name: "/proc/uptime", Reason: "ps and uptime"},
	{Name: "/proc/version", Reason: "platform modules; uname(1) of some"},
	{Name: "/proc/version_signature", Reason: "libuv asks for Ubuntu's kernel version"},
	{Name: "/proc/filesystems", Reason: "libselinux, mount(8), df"},
	{Name: "/proc/mounts", Reason: "df; a link to the process's own list"},
	{Name: "/proc/cmdline", Reason: "shows nothing of the host; systemd-aware tools ask"},
	{Name: "/proc/sys/vm/overcommit_memory", Reason: "glibc's malloc, jemalloc"},
	{Name: "/proc/sys/vm/max_map_count", Reason: "allocators size their arenas"},
	{Name: "/proc/sys/kernel/osrelease", Reason: "uname of containers; ps, lsof"},
	{Name: "/proc/sys/kernel/hostname", Reason: "hostname(1) of some"},
	{Name: "/proc/sys/kernel/pid_max", Reason: "ps, top size their columns"},
	{Name: "/proc/sys/kernel/cap_last_cap", Reason: "libcap: setpriv, capsh"},
	{Name: "/proc/sys/kernel/ngroups_max", Reason: "sysconf(_SC_NGROUPS_MAX): id"},
	{Name: "/proc/sys/kernel/random", Reason: "libuuid; made up by the sandbox's own kernel"},
	{Name: "/proc/sys/kernel/sem", Reason: "ipcs"},
	{Name: "/proc/sys/kernel/shmmax", Reason: "ipcs; databases"},
	{Name: "/proc/sys/kernel/shmall", Reason: "ipcs"},
	{Name: "/proc/sys/kernel/shmmni", Reason: "ipcs"},
	{Name: "/proc/sys/kernel/msgmni", Reason: "ipcs"},
	{Name: "/proc/sys/kernel/msgmax", Reason: "ipcs"},
	{Name: "/proc/sys/kernel/msgmnb", Reason: "ipcs"},
	{Name: "/proc/sys/net", Reason: "settings of the sandbox's own network stack: somaxconn, port ranges"},
	{Name: "/proc/sysvipc", Reason: "ipcs, of the sandbox's own objects"},

	{Name: "/dev/null", Reason: "everything"},
	{Name: "/dev/zero", Reason: "dd, allocators"},
	{Name: "/dev/full", Reason: "tests of ENOSPC"},
	{Name: "/dev/random", Reason: "random numbers"},
	{Name: "/dev/urandom", Reason: "random numbers"},
	{Name: "/dev/tty", Reason: "shells and pagers on a terminal"},
	{Name: "/dev/ptmx", Reason: "terminals of one's own: script, pexpect"},
	{Name: "/dev/pts", Reason: "terminals of one's own"},
	{Name: "/dev/console", Reason: "the run's own terminal"},

	{Name: "/etc/hosts", Reason: "name service"},
	{Name: "/etc/hostname", Reason: "name service"},
	{Name: "/etc/resolv.conf", Reason: "name service"},
	{Name: "/etc/nsswitch.conf", Reason: "name service"},
	{Name: "/etc/localtime", Reason: "time zone"},
	{Name: "/etc/timezone", Reason: "time zone"},
	{Name: "/etc/gitconfig", Reason: "git"},
	{Name: "/etc/ld.so.cache", Reason: "the dynamic loader"},
	{Name: "/etc/ld.so.preload", Reason: "the dynamic loader; the image has none"},
	{Name: "/run/nscd", Reason: "name service: glibc looks for a cache's socket"},
	{Name: "/var/run/nscd", Reason: "as before, on systems without the link"},
}
