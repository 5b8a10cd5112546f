/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the programs and their reader share, and the few kernel types that the programs look into. Every access to a
 * kernel type is relocated for the running kernel (CO-RE), so no vmlinux.h is needed. A direct access to a pointer in one
 * (task->group_leader) makes the verifier search all types of the kernel by name, some milliseconds for each program:
 * BPF_CORE_READ does not. */
#pragma once
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#define CORE __attribute__((preserve_access_index))

struct thread_info { __u32 status; } CORE;
struct sigaction { void *sa_handler; } CORE;
struct k_sigaction { struct sigaction sa; } CORE;
struct sighand_struct { struct k_sigaction action[64]; } CORE;
struct signal_struct { unsigned int flags; } CORE;
struct task_struct {
	struct thread_info thread_info;
	int pid, tgid, exit_state, exit_code;
	__u64 start_boottime;
	struct sighand_struct *sighand;
	struct signal_struct *signal;
} CORE;
struct pt_regs { unsigned long r10, orig_ax, di, si, dx; } CORE;
struct seq_file;
struct bpf_iter_meta { struct seq_file *seq; } CORE;
struct bpf_iter__task { struct bpf_iter_meta *meta; struct task_struct *task; } CORE;

/* The order is that of kinds in record_linux_amd64.go. */
enum kind { SOCKET, CONNECT, OPENAT, EXECVE, SETUID, CAPSET, MOUNT, CLONE, EXIT, SIGSYS, DENIED, BLIND };

/* Flags of a record. */
enum { ALARM = 1, KILLED = 2, COMPAT = 4, UNTAGGED = 8 };

struct record {
	__u64 at; /* CLOCK_BOOTTIME, ns */
	__u32 slot, generation;
	__u32 process, thread;
	__s32 result; /* of a refused call; else 0 */
	__u32 number; /* of the system call */
	__u16 kind, flags, length, unused; /* length of text, its final NUL included */
	__u64 args[3];
};
enum { SMALL = 256, LARGE = 4096 };
struct small { struct record record; char text[SMALL]; };
struct large { struct record record; char text[LARGE]; };

/* A scope is what belongs to one sandbox. Its slot is used again, its generation never. */
struct tag { __u32 slot, generation; };
struct policy { __u32 slot, generation, report, alarm, kill; }; /* the last three are bits of kinds */
#define GUARDED (1u << 31) /* in report: answers that mean "not here" and "no room" are told too */
struct alarm { __u64 count, ready; struct small first; };
struct counts { __u64 events, lost; };
struct member { __u32 slot, generation, process, thread; };
