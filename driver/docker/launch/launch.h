/* What silk and the launcher agree on, and the few facts of the kernel that the launcher needs (x86-64). */
#pragma once
typedef unsigned int u32;
typedef unsigned long u64, usize;

#define VERSION 1
#define MAX_FDS 8
enum { PLAN, STDIN, STDOUT, STDERR, RULESET };             /* descriptors beside the release */
enum { RULER = 1, PROGRAM = 2, ENDED = 3, FAILED = 4 };    /* what the launcher tells */
#define WELL 0x6c6c6577ul
#define TERMINAL 1

/* The plan is a file. Offsets are from its beginning, addresses are those of the process. */
struct plan {
	u32 flags, filter_count;
	u64 dir, filter;                /* offsets: a string, struct sock_filter */
	u32 limits_count, regions_count;
	u64 limits, regions;            /* offsets */
	u64 path, argv, envp;           /* addresses: of execve, and of nobody else */
	u64 message, listener_at;       /* addresses: of the message with the listener, and of the listener in it */
};
struct limit { u64 resource, soft, hard; };
struct region { u64 at, size, offset, from, length; }; /* memory at an address; from is an offset in the plan */

struct address { unsigned short family; char path[108]; };  /* unix(7) */
struct part { void *base; usize length; };                  /* readv(2) */
struct message { void *name; u32 name_length, pad; struct part *parts; usize count; void *control; usize control_length; int flags; };
struct program { unsigned short count; void *filter; };     /* seccomp(2) */

enum { /* arch/x86/entry/syscalls/syscall_64.tbl */
	read = 0, write = 1, close = 3, mmap = 9, ioctl = 16, socket = 41, connect = 42, sendmsg = 46, recvmsg = 47, clone = 56, execve = 59, wait4 = 61,
	kill = 62, chdir = 80, umask = 95, setsid = 112, prctl = 157, exit_group = 231, dup3 = 292, prlimit64 = 302, seccomp = 317,
	pidfd_send_signal = 424, landlock_restrict_self = 446,
};
enum {
	AF_UNIX = 1, SOCK_STREAM = 1, SOCK_SEQPACKET = 5, SOCK_CLOEXEC = 02000000, SOL_SOCKET = 1, SCM_RIGHTS = 1, MSG_CMSG_CLOEXEC = 0x40000000,
	EINTR = 4, SIGKILL = 9, SIGCHLD = 17, TIOCSCTTY = 0x540E, PROT_READ = 1, PROT_WRITE = 2, MAP_PRIVATE = 2, MAP_ANONYMOUS = 0x20,
	MAP_FIXED_NOREPLACE = 0x100000, PR_SET_DUMPABLE = 4, PR_SET_NO_NEW_PRIVS = 38,
	SECCOMP_SET_MODE_FILTER = 1, SECCOMP_FILTER_FLAG_NEW_LISTENER = 8, SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV = 32,
};
