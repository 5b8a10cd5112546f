//go:build ignore
/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#include "silk.h"

/* The kernel lends bpf_send_signal, bpf_probe_read_user and others only to programs whose licence goes with its own; so
 * these files, and nothing else of this module, may be had under the GPL too (license_is_gpl_compatible in license.h). */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define MAP(kind, n, k, v, name) struct { __uint(type, kind); __uint(max_entries, n); __type(key, k); __type(value, v); } name SEC(".maps")
/* The number of slots is set by the reader before it loads this. */
MAP(BPF_MAP_TYPE_ARRAY, 1, __u32, struct policy, policies);
MAP(BPF_MAP_TYPE_ARRAY, 1, __u32, struct alarm, alarms);
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, 1, __u32, struct counts, counters);
MAP(BPF_MAP_TYPE_HASH, 1, __u64, struct tag, groups); /* by cgroup2 id */
struct newborn { __u64 born; __u32 thread, unused; };
MAP(BPF_MAP_TYPE_HASH, 1024, struct newborn, struct tag, newborns); /* tasks that could not be tagged at birth */
struct { __uint(type, BPF_MAP_TYPE_TASK_STORAGE); __uint(map_flags, BPF_F_NO_PREALLOC); __type(key, int); __type(value, struct tag); } tags SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 1 << 18); } shared SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); __uint(max_entries, 1); __type(key, __u32);
	__array(values, struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 1 << 18); });
} rings SEC(".maps"); /* a scope without one uses the shared ring */
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, 16, __u32, __u64, beats); /* by kind */

volatile const __u64 cookie;    /* first argument of the reader's own calls, see Watcher.Check */
volatile const __u32 faults;    /* tests: 1 no task can be tagged at birth, 2 nor noted as newborn */
volatile __u32 groups_used = 0; /* how many cgroups are scopes */
volatile __u32 newborns_used = 0;
volatile __u32 dooming = 0;     /* how many scopes are being killed */

#define EPERM 1
#define EACCES 13
#define ENOSPC 28
#define ENOSYS 38
#define EAFNOSUPPORT 97
#define FORBIDDEN 4090        /* Forbidden in bpf.go: an errno that no kernel knows */
#define SIGKILL 9
#define SIGSYS_NUMBER 31
#define AF_UNIX 1
#define TS_COMPAT 2           /* arch/x86/include/asm/thread_info.h: a 32-bit system call */
#define SIGNAL_GROUP_EXIT 4   /* include/linux/sched/signal.h */
#define CLONE_THREAD 0x10000
#define X32 0x40000000
#define MAX_LEVEL 24          /* depth of cgroups that are looked at */
#define MAX_SHARED 16         /* alarms of one scope that go through the shared ring: all are counted */

static __always_inline struct policy *valid(struct tag *t)
{
	if (!t) return 0;
	__u32 slot = t->slot;
	struct policy *p = bpf_map_lookup_elem(&policies, &slot);
	return p && p->generation == t->generation ? p : 0;
}

static __noinline int level_of(__u32 unused)
{
	for (int l = 1; l < MAX_LEVEL; l++) {
		__u64 id = bpf_get_current_ancestor_cgroup_id(l);
		if (!id) break;
		if (bpf_map_lookup_elem(&groups, &id)) return l;
	}
	return 0;
}

/* The tag of a thread that has none of its own: noted at its birth, or that of a cgroup above it. */
static __always_inline struct tag *inherited(struct task_struct *task)
{
	if (newborns_used) {
		struct newborn key = {};
		key.born = task->start_boottime;
		key.thread = task->pid;
		struct tag *t = bpf_map_lookup_elem(&newborns, &key);
		if (valid(t)) return t;
	}
	if (!groups_used) return 0;
	__u64 id = bpf_get_current_ancestor_cgroup_id(level_of(0));
	return bpf_map_lookup_elem(&groups, &id);
}

/* The scope of the running thread. It has a tag of its own from then on, which leaving its cgroup does not take away. */
static __always_inline struct policy *scope(struct task_struct *task)
{
	struct policy *p = valid(bpf_task_storage_get(&tags, task, 0, 0));
	if (p) return p;
	p = valid(inherited(task));
	if (p && !faults) {
		struct tag tag = { p->slot, p->generation };
		struct tag *own = bpf_task_storage_get(&tags, task, &tag, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (own) *own = tag; /* it may have had one of a scope that is no more */
	}
	return p;
}

/* What a system call is, and which of its arguments has text: a string or the address of a socket. It is a table, not a
 * switch, because the verifier would follow each of its cases to the end of the program. */
enum { NO_TEXT, STRING_0, STRING_1, ADDRESS };
#define CALL(kind, text) (0x80 | (text) << 4 | (kind))
#define CALLS 512
volatile const __u8 calls[CALLS] = {
	[41] = CALL(SOCKET, NO_TEXT),
	[42] = CALL(CONNECT, ADDRESS),
	[2] = CALL(OPENAT, STRING_0),   /* open */
	[85] = CALL(OPENAT, STRING_0),  /* creat */
	[257] = CALL(OPENAT, STRING_1),
	[437] = CALL(OPENAT, STRING_1), /* openat2 */
	[304] = CALL(OPENAT, NO_TEXT),  /* open_by_handle_at */
	[59] = CALL(EXECVE, STRING_0),
	[322] = CALL(EXECVE, STRING_1), /* execveat */
	[105] = CALL(SETUID, NO_TEXT),
	[113] = CALL(SETUID, NO_TEXT),  /* setreuid */
	[117] = CALL(SETUID, NO_TEXT),  /* setresuid */
	[122] = CALL(SETUID, NO_TEXT),  /* setfsuid */
	[106] = CALL(SETUID, NO_TEXT),  /* setgid */
	[114] = CALL(SETUID, NO_TEXT),  /* setregid */
	[119] = CALL(SETUID, NO_TEXT),  /* setresgid */
	[123] = CALL(SETUID, NO_TEXT),  /* setfsgid */
	[116] = CALL(SETUID, NO_TEXT),  /* setgroups */
	[126] = CALL(CAPSET, NO_TEXT),
	[165] = CALL(MOUNT, STRING_1),
	[166] = CALL(MOUNT, STRING_0),  /* umount2 */
	[155] = CALL(MOUNT, STRING_0),  /* pivot_root */
	[428] = CALL(MOUNT, STRING_1),  /* open_tree */
	[429] = CALL(MOUNT, STRING_1),  /* move_mount: from where */
	[430] = CALL(MOUNT, STRING_0),  /* fsopen: the type */
	[432] = CALL(MOUNT, NO_TEXT),   /* fsmount */
	[442] = CALL(MOUNT, STRING_1),  /* mount_setattr */
	[467] = CALL(MOUNT, STRING_1),  /* open_tree_attr */
	[425] = CALL(BLIND, NO_TEXT),   /* io_uring_setup: what it does is no system call */
};
struct what { __u32 kind, text; };
static __always_inline struct what classify(__u64 number)
{
	__u8 call = number < CALLS ? calls[number] : 0;
	if (!call) return (struct what){ DENIED, NO_TEXT };
	return (struct what){ call & 15, call >> 4 & 3 };
}

static __always_inline long read_text(char *to, __u32 room, struct record *r, int text)
{
	if (text == ADDRESS) {
		__u64 n = r->args[2];
		if (n > 128) n = 128; /* struct sockaddr_storage, socket(7) */
		if (n < 2) return 0;
		return bpf_probe_read_user(to, n, (void *)r->args[1]) ? 0 : n;
	}
	if (text == NO_TEXT) return 0;
	return bpf_probe_read_user_str(to, room, (void *)(text == STRING_0 ? r->args[0] : r->args[1]));
}

/* Sends a record to the reader, or counts it as lost. */
static __always_inline int send(void *ring, struct record *r, int text)
{
	struct small *s = bpf_ringbuf_reserve(ring, sizeof *s, 0);
	if (!s) return -1;
	long n = read_text(s->text, SMALL, r, text);
	if (n == SMALL) { /* a string that may be longer */
		bpf_ringbuf_discard(s, BPF_RB_NO_WAKEUP);
		struct large *l = bpf_ringbuf_reserve(ring, sizeof *l, 0);
		if (!l) return -1;
		n = read_text(l->text, LARGE, r, text);
		l->record = *r;
		l->record.length = n < 0 ? 0 : n;
		bpf_ringbuf_submit(l, 0);
		return 0;
	}
	s->record = *r;
	s->record.length = n < 0 ? 0 : n;
	bpf_ringbuf_submit(s, 0);
	return 0;
}

/* Reports what the running thread does to the scope that it belongs to. The alarm is counted, and the process ended,
 * whether or not there is room for a record. */
static __noinline int report(struct policy *p, struct record *r, int text)
{
	if (!p || !r) return 0;
	__u32 slot = p->slot, bit = 1u << (r->kind & 31);
	int alarm = (p->alarm & bit) && !(r->kind == SOCKET && (__u32)r->args[0] == AF_UNIX);
	if (!alarm && !(p->report & bit)) return 0;
	__u64 id = bpf_get_current_pid_tgid();
	r->at = bpf_ktime_get_boot_ns();
	r->slot = slot;
	r->generation = p->generation;
	r->process = id >> 32;
	r->thread = (__u32)id;
	__u64 before = 0;
	if (alarm) {
		r->flags |= ALARM;
		if ((p->kill & bit) && !bpf_send_signal(SIGKILL)) r->flags |= KILLED;
		struct alarm *a = bpf_map_lookup_elem(&alarms, &slot);
		if (!a) return 0; /* cannot be: policies has the same slots */
		before = __sync_fetch_and_add(&a->count, 1);
		if (before == 0) {
			a->first.record = *r;
			long n = read_text(a->first.text, SMALL, r, text);
			a->first.record.length = n < 0 ? 0 : n;
			__sync_fetch_and_add(&a->ready, 1); /* after all that it vouches for */
		}
	}
	struct counts *c = bpf_map_lookup_elem(&counters, &slot);
	if (!c) return 0;
	void *ring = bpf_map_lookup_elem(&rings, &slot);
	if (!ring && before >= MAX_SHARED) return 0;
	if (ring ? send(ring, r, text) : send(&shared, r, text))
		__sync_fetch_and_add(&c->lost, 1);
	else
		__sync_fetch_and_add(&c->events, 1);
	return 0;
}

static __always_inline void beat(__u32 program)
{
	__u64 *n = bpf_map_lookup_elem(&beats, &program);
	if (n) __sync_fetch_and_add(n, 1);
}

/* Entry of a call. seccomp has had its say before: what it refuses is seen at the exit only. */
SEC("tp_btf/sys_enter") int BPF_PROG(silk_enter, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct what w = { BLIND, NO_TEXT };
	__u16 flags = COMPAT;
	if (!(task->thread_info.status & TS_COMPAT) && !(number & X32)) {
		w = classify(number);
		if (w.kind == DENIED) return 0;
		flags = 0;
	}
	struct record r = { .number = (__u32)number, .kind = w.kind, .flags = flags };
	r.args[0] = regs->di;
	if (r.args[0] == cookie) {
		beat(w.kind);
		return 0;
	}
	struct policy *p = scope(task);
	if (!p) return 0;
	r.args[1] = regs->si;
	r.args[2] = regs->dx;
	report(p, &r, w.text);
	return 0;
}

static __always_inline int refused(long result) { return result == -EPERM || result == -EACCES || result == -FORBIDDEN; }
static __always_inline int answered(long result) { return result == -ENOSYS || result == -EAFNOSUPPORT || result == -ENOSPC; }

SEC("tp_btf/sys_exit") int BPF_PROG(silk_exit, struct pt_regs *regs, long result)
{
	if (!dooming && !refused(result)) return 0; /* a guarded scope is counted in dooming */
	struct task_struct *task = bpf_get_current_task_btf();
	if (regs->dx == cookie) {
		beat(DENIED);
		return 0;
	}
	struct policy *p = scope(task);
	if (!p) return 0;
	if (p->kill == ~0u) { /* the scope is being killed: whoever is left of it */
		bpf_send_signal(SIGKILL);
		return 0;
	}
	if (!refused(result) && !(answered(result) && p->report & GUARDED)) return 0;
	if ((long)regs->orig_ax < 0) return 0; /* rt_sigreturn, which "returns" what the interrupted code had in ax */
	struct what w = { DENIED, NO_TEXT };
	struct record r = { .number = (__u32)regs->orig_ax, .result = (__s32)result };
	if (task->thread_info.status & TS_COMPAT || regs->orig_ax & X32) r.flags = COMPAT;
	else w = classify(regs->orig_ax);
	r.kind = w.kind == BLIND ? DENIED : w.kind; /* refused: nothing is hidden */
	r.args[0] = regs->di;
	r.args[1] = regs->si;
	r.args[2] = regs->dx;
	if (result != -FORBIDDEN) {
		report(p, &r, w.text);
		return 0;
	}
	/* What was to be prevented has been; now the scope ends: this process at once, the others at the end of their next call. */
	struct policy last = *p;
	last.alarm = last.kill = ~0u;
	report(&last, &r, w.text);
	p->kill = ~0u;
	return 0;
}

/* SECCOMP_RET_TRAP and _KILL_PROCESS both raise SIGSYS, which names the call. The first is how gVisor's stub processes
 * hand every call of the guest to the Sentry; the second sets the default action before it raises (force_sig_info in
 * kernel/signal.c), so a handler that is still there tells them apart. */
struct siginfo { int signo, error, code, unused; __u64 address; int number; __u32 arch; }; /* sigaction(2) */
SEC("raw_tracepoint/signal_generate") int silk_signal(struct bpf_raw_tracepoint_args *c)
{
	if ((int)c->args[0] != SIGSYS_NUMBER || c->args[1] < 4096) return 0; /* small: SEND_SIG_NOINFO, SEND_SIG_PRIV */
	struct siginfo info = {};
	if (bpf_probe_read_kernel(&info, sizeof info, (void *)c->args[1]) || info.code != 1) return 0; /* SYS_SECCOMP */
	struct task_struct *task = bpf_get_current_task_btf();
	struct policy *p = scope(task);
	if (!p || BPF_CORE_READ(task, sighand, action[SIGSYS_NUMBER - 1].sa.sa_handler)) return 0;
	struct record r = { .number = info.number, .kind = SIGSYS };
	if (info.arch != 0xc000003e) r.flags = COMPAT; /* AUDIT_ARCH_X86_64 */
	report(p, &r, NO_TEXT);
	return 0;
}

/* A task inherits its parent's tag before it runs. One that cannot be tagged is noted by its number and its birth; if
 * that fails too, the scope is lost: an alarm, and its end. */
SEC("tp_btf/task_newtask") int BPF_PROG(silk_newtask, struct task_struct *task, __u64 flags)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct policy *p = scope(parent);
	if (!p) return 0;
	struct tag tag = { p->slot, p->generation };
	struct record r = { .kind = CLONE };
	r.args[0] = task->pid;
	r.args[1] = flags & CLONE_THREAD ? 1 : 0;
	if (!faults && bpf_task_storage_get(&tags, task, &tag, BPF_LOCAL_STORAGE_GET_F_CREATE)) {
		report(p, &r, NO_TEXT);
		return 0;
	}
	struct newborn key = {};
	key.born = task->start_boottime;
	key.thread = task->pid;
	if (faults < 2 && !bpf_map_update_elem(&newborns, &key, &tag, BPF_ANY)) {
		__sync_fetch_and_add(&newborns_used, 1);
		report(p, &r, NO_TEXT);
		return 0;
	}
	r.flags = UNTAGGED;
	struct policy lost = *p;
	lost.alarm = lost.kill = ~0u;
	report(&lost, &r, NO_TEXT);
	return 0;
}

SEC("tp_btf/sched_process_exit") int BPF_PROG(silk_end, struct task_struct *task)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct policy *p = scope(me);
	if (newborns_used) {
		struct newborn key = {};
		key.born = me->start_boottime;
		key.thread = me->pid;
		if (!bpf_map_delete_elem(&newborns, &key)) __sync_fetch_and_add(&newborns_used, -1);
	}
	if (!p) return 0;
	struct record r = { .kind = EXIT };
	r.args[0] = me->exit_code;
	/* SECCOMP_RET_KILL_THREAD raises no signal; it ends one thread as if SIGSYS had. */
	if ((me->exit_code & 0x7f) == SIGSYS_NUMBER && !(BPF_CORE_READ(me, signal, flags) & SIGNAL_GROUP_EXIT)) {
		struct record s = { .kind = SIGSYS, .number = ~0u };
		report(p, &s, NO_TEXT);
	}
	if (me->pid == me->tgid) report(p, &r, NO_TEXT);
	return 0;
}

/* Gives the tag to the threads of one process and lists those that did not have it: where a thread has no descriptor of its
 * own (before Linux 6.9), user space can only reach a process's first one. */
volatile __u32 adopt_process = 0, adopt_slot = 0, adopt_generation = 0;
SEC("iter/task") int silk_adopt(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	if (!task || task->tgid != adopt_process || task->exit_state) return 0;
	struct tag tag = { adopt_slot, adopt_generation };
	struct tag *own = bpf_task_storage_get(&tags, task, 0, 0);
	if (own && own->slot == tag.slot && own->generation == tag.generation) return 0;
	own = bpf_task_storage_get(&tags, task, &tag, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (own) *own = tag; /* else it is listed as well, and tried again */
	struct member m = { tag.slot, tag.generation, task->tgid, task->pid };
	bpf_seq_write(ctx->meta->seq, &m, sizeof m);
	return 0;
}

/* Lists tagged tasks that live. */
SEC("iter/task") int silk_list(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	if (!task) return 0;
	struct tag *t = bpf_task_storage_get(&tags, task, 0, 0);
	if (!t || task->exit_state) return 0;
	struct member m = { t->slot, t->generation, task->tgid, task->pid };
	bpf_seq_write(ctx->meta->seq, &m, sizeof m);
	return 0;
}
