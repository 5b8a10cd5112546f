package selftest

import "github.com/silk-sandbox/silk/driver/rules"

// spellings are ways to write the name of a forbidden file. The decision is about the resolved object.
func spellings() []Row {
	return class(
		"spellings of a forbidden name", rules.FileAccounts, unlistedThen(Layer{Effect: true}),
		Row{Name: "the plain name", Attack: do("read", "/etc/passwd")},
		Row{Name: "dots on the way", Attack: do("read", "/usr/lib/../../etc/./passwd")},
		Row{Name: "more slashes than needed", Attack: do("read", "//etc///passwd")},
		Row{Name: "relative, from its directory", Attack: do("from", "/etc", "read", "passwd")},
		Row{Name: "relative, out of the workspace", Attack: do("read", "../../../etc/passwd")},
		Row{Name: "through /proc/self/root", Attack: do("read", "/proc/self/root/etc/passwd")},
		Row{Name: "through /proc/self/cwd", Attack: do("from", "/etc", "read", "/proc/self/cwd/passwd")},
		Row{Name: "through the root of a thread", Attack: do("in-thread", "read", "/proc/thread-self/root/etc/passwd")},
		Row{Name: "through the root of a child", Attack: do("with-child", "read", "/proc/{child}/root/etc/passwd")},
		Row{Name: "at a descriptor of its directory", Attack: do("read-at", "/etc", "passwd")},
		Row{Name: "at a descriptor that only names the root", Attack: do("read-path", "/", "etc/passwd")},
		Row{Name: "the working directory set by descriptor", Attack: do("cwd-fd", "/etc", "passwd")},
	)
}

// links lead to a forbidden file under another name.
func links() []Row {
	return class(
		"links to a forbidden file", rules.FileAccounts, unlistedThen(Layer{Effect: true}),
		Row{Name: "a symbolic link", Attack: do("link", "1", "/etc/passwd")},
		Row{Name: "a chain of thirty links", Attack: do("link", "30", "/etc/passwd")},
		Row{Name: "a relative link", Attack: do("link", "1", "../etc/passwd")},
		Row{Name: "a link to its directory", Attack: do("link-below", "/etc", "passwd")},
		Row{Name: "a link to a link of /proc", Attack: do("link-below", "/proc/self/root/etc", "passwd")},
		Row{Name: "a link in /tmp", Attack: do("link-in", "/tmp", "/etc/passwd")},
		Row{Name: "a link in /dev/shm", Attack: do("link-in", "/dev/shm", "/etc/passwd")},
		Row{Name: "a link that is opened itself first", Attack: do("link-itself", "/etc/passwd"), Want: Want{Errno: "ELOOP"}},
		Row{Name: "moved into the workspace", Attack: do("move-away", "/etc/passwd"), Want: Want{Errno: "EXDEV|EROFS|EACCES|EPERM|ENOENT"}},
		Row{Name: "a working directory that was removed", Attack: do("removed", "../../etc/passwd")},
		Row{Name: "a directory that was moved while it was open", Attack: do("rename-parent", "/../etc/passwd")},
	)
}

// hardLinks give a file another name. They must not reach another file system, so that none of them can be to a file that
// is not the run's own.
func hardLinks() []Row {
	other := Want{Errno: "EXDEV|EACCES|EPERM|EROFS"}
	return class(
		"hard links", "", nil,
		Row{Name: "of a forbidden file", Attack: do("hardlink", "/etc/passwd"), Want: Want{Errno: "EXDEV|EACCES|EPERM|EROFS|ENOENT"}},
		Row{Name: "of a descriptor of a forbidden file", Rule: rules.FileAccounts, Attack: do("hardlink-fd", "/etc/passwd"), Behind: unlistedThen(kernel("EXDEV", "a hard link stays in its file system"))},
		Row{Name: "of a program", Attack: do("hardlink", "/usr/bin/sh"), Want: other},
		Row{Name: "of a device", Attack: do("hardlink", "/dev/null"), Want: other},
		Row{Name: "of a file of /proc", Attack: do("hardlink", "/proc/cgroups"), Want: other},
		Row{Name: "in the workspace, which is ordinary", Rule: rules.FileWorkspace, Attack: do("hardlink", "copied"), Behind: behind(Layer{Want: unstarted, Why: programGone})},
	)
}

// lookalikes have names that only look forbidden.
func lookalikes() []Row {
	return class(
		"names that only look forbidden", rules.FileWorkspace, behind(Layer{Want: unstarted, Why: programGone}),
		Row{Name: "an etc/passwd of one's own", Attack: do("keep-at", "/workspace/etc/passwd")},
		Row{Name: "an etc/passwd of one's own, through a link", Attack: do("keep-at", "/proc/self/cwd/root/.ssh/id_rsa")},
		Row{Name: "a proc/kcore in /tmp", Rule: rules.FileTemporary, Attack: do("keep-at", "/tmp/proc/kcore"), Behind: unlistedThen(Layer{Effect: true})},
		Row{Name: "a file of the image by a link in /etc", Rule: rules.FileImage, Attack: do("read", "/etc/os-release"), Behind: unlistedThen(Layer{Effect: true})},
	)
}

// openings are calls and flags that open a file in another way than for reading.
func openings() []Row {
	const noHandles = "its file systems have no handles"
	return class(
		"other ways to open a forbidden file", rules.FileAccounts, unlistedThen(Layer{Effect: true}),
		Row{Name: "open(2), as old programs do", Attack: do("open-by", "open", "/etc/passwd")},
		Row{Name: "creat(2)", Attack: do("open-by", "creat", "/etc/gshadow"), Behind: behind(kernel("EROFS|EACCES", readOnlyRoot))},
		Row{Name: "openat2(2)", Rule: "file.openat2", Attack: do("open-by", "openat2", "/etc/passwd"), Behind: happens},
		Row{Name: "name_to_handle_at(2)", Rule: "file.handle", Attack: do("handle", "/etc/passwd"), Behind: behind(kernel("EOPNOTSUPP", noHandles))},
		Row{Name: "open_by_handle_at(2)", Rule: "file.handle", Attack: do("handle-own"), Behind: behind(kernel("EOPNOTSUPP", noHandles))},
		Row{Name: "uselib(2)", Attack: do("open-by", "uselib", "/etc/passwd"), Want: Want{Errno: "ENOSYS"}},
		Row{Name: "a descriptor that only names it, opened again", Attack: do("reopen", "/etc/passwd")},
		Row{Name: "with O_DIRECTORY", Attack: do("open", "rdonly,directory", "/etc/passwd"), Behind: unlistedThen(kernel("ENOTDIR", "it is a file"))},
		Row{Name: "made if it is not there", Attack: do("open", "rdwr,creat", "/etc/shadow"), Behind: behind(kernel("EROFS|EACCES", readOnlyRoot))},
		Row{Name: "a name below a forbidden one", Attack: do("read", "/etc/sudoers/x"), Behind: behind(kernel("ENOTDIR|ENOENT", notThere))},
		Row{Name: "truncate(2)", Attack: do("truncate", "/etc/passwd"), Want: Want{Errno: "EROFS|EACCES|ENOENT"}},
		Row{Name: "stat(2) says only whether it is there", Attack: do("stat", "/etc/gshadow"), Want: Want{Errno: "0|ENOENT"}},
	)
}

// unlistedThen says that default deny stops an attack, and what comes of it when that is off too.
func unlistedThen(next ...Layer) []Layer { return thenRule(rules.FileUnlisted, next...) }

// kernelFiles are windows into a kernel, and levers of it. The sandbox's own kernel has hardly any of them.
func kernelFiles() []Row {
	return class(
		"files of the kernel", rules.FileKernel, behind(kernel("ENOENT", notThere)),
		Row{Name: "memory", Attack: do("read", "/proc/kcore")},
		Row{Name: "symbols", Attack: do("read", "/proc/kallsyms")},
		Row{Name: "messages", Attack: do("read", "/proc/kmsg")},
		Row{Name: "keys, through another root", Attack: do("read", "/proc/self/root/proc/keys")},
		Row{Name: "users of keys", Attack: do("read", "/proc/key-users")},
		Row{Name: "the scheduler", Attack: do("link", "2", "/proc/sched_debug")},
		Row{Name: "timers", Attack: do("in-child", "read", "/proc/timer_list")},
		Row{Name: "the lever of sysrq", Attack: do("open", "wronly", "/proc/sysrq-trigger"), Behind: unlistedThen(kernel("EACCES", "it is root's"))},
		Row{Name: "the program that receives core files", Attack: do("write", "/proc/sys/kernel/core_pattern"), Behind: behind(kernel("EACCES", "nothing can be made in /proc"))},
		Row{Name: "uses of pages", Attack: do("reopen", "/proc/kpagecount")},
		Row{Name: "flags of pages", Attack: do("read", "/proc/kpageflags")},
	)
}

// hostFiles are the host's: its hardware, root's home, the kernel that it starts.
func hostFiles() []Row {
	return class(
		"files of the host", rules.FileSys, behind(kernel("ENOENT", notThere)),
		Row{Name: "the kernel's trace", Attack: do("read", "/sys/kernel/debug/tracing/trace")},
		Row{Name: "tables of the firmware", Attack: do("list", "/sys/firmware/acpi/tables")},
		Row{Name: "network devices, from an allowed directory", Attack: do("list", "/sys/devices/system/cpu/../../../class/net")},
		Row{Name: "blocks of memory", Attack: do("read-at", "/sys/devices/system", "memory/block_size_bytes")},
		Row{Name: "root's home", Rule: rules.FileRootHome, Attack: do("list", "/root"), Behind: happens},
		Row{Name: "a key in root's home", Rule: rules.FileRootHome, Attack: do("read", "/root/.ssh/id_rsa"), Behind: unlistedThen(Layer{Effect: true})},
		Row{Name: "a file made in root's home", Rule: rules.FileRootHome, Attack: do("link-creat", "/root/attack"), Behind: behind(kernel("EACCES|EROFS", readOnlyRoot))},
		Row{Name: "the kernel's image", Rule: rules.FileBoot, Attack: do("read", "/boot/vmlinuz"), Behind: unlistedThen(Layer{Effect: true})},
		Row{Name: "the names in /boot", Rule: rules.FileBoot, Attack: do("list", "/boot"), Behind: happens},
	)
}

// processFiles are what /proc has of other processes, of the same user.
func processFiles() []Row {
	return class(
		"files of other processes", rules.FileEnviron, happens,
		Row{Name: "the environment of the parent", Attack: do("in-child", "read", "/proc/{parent}/environ")},
		Row{Name: "the environment of a child", Attack: do("with-child", "read", "/proc/{child}/environ")},
		Row{Name: "the environment of a child's thread", Attack: do("with-child", "read", "/proc/{child}/task/{child}/environ")},
		Row{Name: "the environment of a child, from one's own directory", Attack: do("with-child", "read", "/proc/self/../{child}/environ")},
		Row{Name: "the environment of a child, as if it were a thread", Attack: do("with-child", "read", "/proc/self/task/{child}/environ"), Want: Want{Errno: "ENOENT"}},
		Row{Name: "the environment of process 1", Attack: do("read", "/proc/1/environ"), Behind: behind(kernel("EACCES", notOwner))},
		Row{Name: "the memory of the parent", Rule: rules.FileMemory, Attack: do("in-child", "peek-mem", "{parent}"), Behind: behind(kernel("EACCES", inward))},
		Row{Name: "the memory of a child", Rule: rules.FileMemory, Attack: do("with-child", "peek-mem", "{child}")},
		Row{Name: "the memory of process 1", Rule: rules.FileMemory, Attack: do("peek-mem", "1"), Behind: behind(kernel("EACCES", notOwner))},
	)
}

// devices belong to a host.
func devices() []Row {
	gone := behind(kernel("ENOENT", notThere))
	node := behind(kernel("EPERM", noCapability))
	return class(
		"devices", rules.FileDevice, gone,
		Row{Name: "the host's memory", Attack: do("open", "rdwr", "/dev/mem")},
		Row{Name: "a disk", Attack: do("open", "rdonly", "/dev/vda")},
		Row{Name: "a partition of a disk", Attack: do("open", "rdonly", "/dev/nvme0n1p1")},
		Row{Name: "virtual machines", Attack: do("open", "rdwr", "/dev/kvm")},
		Row{Name: "the kernel's messages", Attack: do("open", "rdonly", "/dev/kmsg")},
		Row{Name: "file systems in user space", Attack: do("open", "rdwr", "/dev/fuse"), Behind: unlistedThen(Layer{Effect: true})},
		Row{Name: "a network device of one's own", Attack: do("open", "rdwr", "/dev/net/tun"), Behind: unlistedThen(Layer{Effect: true})},
		Row{Name: "a disk, by another name", Attack: do("link-below", "/dev/disk", "by-id/ata-0")},
		Row{Name: "a character device by mknod(2)", Rule: rules.SystemNode, Attack: do("device", "mknod", "char"), Behind: node},
		Row{Name: "a character device by mknodat(2)", Rule: rules.SystemNode, Attack: do("device", "mknodat", "char"), Behind: node},
		Row{Name: "a block device", Rule: rules.SystemNode, Attack: do("device", "mknodat", "block"), Behind: node},
		Row{Name: "keys typed into the user's terminal", Attack: do("terminal"), Want: Want{Errno: "ENOTTY"}},
	)
}

// unlisted are files outside every tree that a program may read: default deny.
func unlisted() []Row {
	return class(
		"files outside every tree", rules.FileUnlisted, happens,
		Row{Name: "a file of /proc", Attack: do("read", "/proc/cgroups")},
		Row{Name: "a setting of the kernel", Attack: do("read", "/proc/sys/vm/mmap_min_addr")},
		Row{Name: "a setting of its addresses", Attack: do("read", "/proc/sys/kernel/randomize_va_space")},
		Row{Name: "by a link", Attack: do("link", "3", "/proc/cgroups")},
		Row{Name: "at a descriptor", Attack: do("read-at", "/proc", "cgroups")},
		Row{Name: "relative", Attack: do("from", "/proc", "read", "cgroups")},
		Row{Name: "a descriptor that only names it", Attack: do("reopen", "/proc/cgroups")},
		Row{Name: "to write to", Attack: do("open", "wronly", "/proc/sys/kernel/hostname"), Want: Want{Errno: "EACCES|EROFS"}},
		Row{Name: "memory of the sandbox's own kernel", Attack: do("read", "/proc/sentry-meminfo"), Needs: []string{NeedsSentry}},
		Row{Name: "executed", Attack: do("exec", "/proc/cgroups"), Want: Want{Errno: "EACCES"}},
		Row{Name: "a loader of programs", Attack: do("exec-elf", "/proc/cgroups"), Want: Want{Errno: "EACCES"}},
		Row{Name: "an interpreter of scripts", Attack: do("exec-script", "/proc/cgroups"), Want: Want{Errno: "EACCES"}},
	)
}

// ordinaryFiles are what programs may do: a policy that stops it is as wrong as one that lets the rest through.
func ordinaryFiles() []Row {
	denied := unlistedThen(Layer{Effect: true})
	return class(
		"ordinary files", "", denied,
		Row{Name: "a file in the workspace", Rule: rules.FileWorkspace, Attack: do("keep", "/workspace"), Behind: behind(Layer{Want: unstarted, Why: programGone})},
		Row{Name: "a file in /tmp", Rule: rules.FileTemporary, Attack: do("keep", "/tmp")},
		Row{Name: "a file in /dev/shm", Rule: rules.FileTemporary, Attack: do("keep", "/dev/shm")},
		Row{Name: "a library of the image", Rule: rules.FileImage, Attack: do("read", "/usr/lib/os-release")},
		Row{Name: "the number of processors", Rule: rules.FileStartup, Attack: do("read", "/sys/devices/system/cpu/online"), Behind: denied},
		Row{Name: "random numbers", Rule: rules.FileStartup, Attack: do("read", "/dev/urandom")},
		Row{Name: "the own environment", Rule: rules.FileStartup, Attack: do("read", "/proc/self/environ"), Behind: denied},
		Row{Name: "the names in /etc", Rule: rules.FileDirectory, Attack: do("list", "/etc")},
		Row{Name: "a pipe, opened again", Rule: rules.FileAnonymous, Attack: do("anonymous", "pipe")},
		Row{Name: "a memfd, opened again", Rule: rules.FileAnonymous, Attack: do("anonymous", "memfd"), Needs: []string{NeedsMemfd}},
		Row{Name: "limits that runtimes look for", Rule: rules.FileProbe, Attack: do("read", "/sys/fs/cgroup/memory.max"), Behind: thenRule(rules.FileSys, kernel("ENOENT", notThere))},
		Row{Name: "caches that runtimes look for", Rule: rules.FileProbe, Attack: do("list", "/sys/devices/system/node"), Behind: behind(kernel("ENOENT", notThere))},
	)
}

// readOnly are places where nothing may be changed.
func readOnly() []Row {
	const refused = "EROFS|EACCES|EPERM"
	return class(
		"changes outside the writable places", "", nil,
		Row{Name: "a file in /etc", Attack: do("write", "/etc/attack"), Want: Want{Errno: refused}},
		Row{Name: "a file in /usr/bin", Attack: do("write", "/usr/bin/attack"), Want: Want{Errno: refused}},
		Row{Name: "a file in /", Attack: do("write", "/attack"), Want: Want{Errno: refused}},
		Row{Name: "a file in /dev", Attack: do("write", "/dev/attack"), Want: Want{Errno: refused}},
		Row{Name: "a file in /var/tmp", Attack: do("write", "/var/tmp/attack"), Want: Want{Errno: refused}},
		Row{Name: "a nameless file in /usr", Attack: do("open", "wronly,tmpfile", "/usr"), Want: Want{Errno: refused + "|EOPNOTSUPP|EISDIR"}},
		Row{Name: "a directory in /usr", Attack: do("make", "dir", "/usr/attack"), Want: Want{Errno: refused}},
		Row{Name: "a link in /dev", Attack: do("make", "link", "/dev/attack"), Want: Want{Errno: refused}},
		Row{Name: "a program removed", Attack: do("make", "remove", "/usr/bin/sh"), Want: Want{Errno: refused}},
		Row{Name: "a program's mode changed", Attack: do("make", "mode", "/usr/bin/sh"), Want: Want{Errno: refused}},
		Row{Name: "an owner changed in the workspace", Attack: do("make", "owner", "/workspace"), Want: Want{Errno: "EPERM"}},
		Row{Name: "a library cut short", Attack: do("truncate", "/usr/lib/os-release"), Want: Want{Errno: refused}},
	)
}

// mounted is a directory of the host that the user shows to the run.
func mounted() []Row {
	const refused = "EROFS|EACCES|EPERM"
	rows := class(
		"a mounted directory", "", nil,
		Row{Name: "its file, which is ordinary to read", Rule: rules.FileWorkspace, Attack: do("read", "/workspace/mounted/file"), Behind: behind(Layer{Want: unstarted, Why: programGone})},
		Row{Name: "its file cut short", Attack: do("truncate", "/workspace/mounted/file"), Want: Want{Errno: refused}},
		Row{Name: "its file removed", Attack: do("make", "remove", "/workspace/mounted/file"), Want: Want{Errno: refused}},
		Row{Name: "a file made in it", Attack: do("write", "/workspace/mounted/attack"), Want: Want{Errno: refused}},
		Row{Name: "a link out of it", Attack: do("read", "/workspace/mounted/out"), Want: Want{Errno: "ENOENT"}},
		Row{Name: "a link to a place on the host", Attack: do("read", "/workspace/mounted/far-out"), Want: Want{Errno: "ENOENT"}},
		Row{Name: "a place beside it", Attack: do("read", "/workspace/mounted/../../{dir}/secret"), Want: Want{Errno: "ENOENT"}},
	)
	for i := range rows {
		rows[i].Mounted = true
	}
	return rows
}
