//go:build ignore
/* The first process of a container, and what looks after it on the host: see package launch. It has no libc, no heap, no
 * variable that is written to before main, and decides nothing: everything that it does stands in the plan that silk sends. */
#include "launch.h"

static long sys(long n, long a, long b, long c, long d, long e, long f)
{
	long r;
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	__asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return r;
}
#define SYS(n, a, b, c) sys(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)

void *memcpy(void *to, const void *from, usize n) /* clang may call it */
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	return to;
}
void *memset(void *to, int with, usize n)
{
	void *at = to;
	__asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(with) : "memory");
	return to;
}

__attribute__((noreturn)) static void leave(int status)
{
	for (;;) SYS(exit_group, status, 0, 0);
}

/* Tells silk: what happened, and a number that belongs to it. */
static void tell(int gate, u32 what, u32 number)
{
	u32 said[2] = { what, number };
	SYS(write, gate, said, sizeof said);
}

static int knock(u32 who)
{
	static const struct address gate = { AF_UNIX, "/.silk/gate" };
	int fd = SYS(socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || SYS(connect, fd, &gate, sizeof gate.family + sizeof "/.silk/gate")) leave(126);
	tell(fd, who, VERSION);
	return fd;
}

/* Waits for silk's message: the release. Its descriptors are put into fds. */
static long receive(int fd, void *to, usize room, int *fds, int n)
{
	struct { usize length; int level, type, fds[MAX_FDS]; } control;
	struct part part = { to, room };
	struct message m = { .parts = &part, .count = 1, .control = &control, .control_length = sizeof control };
	long got;
	do got = SYS(recvmsg, fd, &m, MSG_CMSG_CLOEXEC);
	while (got == -EINTR);
	if (got <= 0) return got;
	for (int i = 0; i < n; i++) fds[i] = -1;
	if (m.control_length < 16 || control.level != SOL_SOCKET || control.type != SCM_RIGHTS) return got;
	usize sent = (control.length - 16) / sizeof(int);
	for (usize i = 0; i < sent && i < (usize)n; i++) fds[i] = control.fds[i];
	return got;
}

/* The program's process, until it is the program. */
__attribute__((noreturn)) static void become(void)
{
	int gate = knock(PROGRAM), fds[MAX_FDS];
	u64 size;
	if (receive(gate, &size, sizeof size, fds, MAX_FDS) != sizeof size || fds[PLAN] < 0) leave(126);
	u32 step = 0;
	long r;
#define TRY(call) do { step++; r = (call); if (r < 0 && r > -4096) goto failed; } while (0)
	TRY(sys(mmap, 0, size, PROT_READ, MAP_PRIVATE, fds[PLAN], 0)); /* 1 */
	const struct plan *plan = (void *)r;
	const char *base = (void *)plan;
	TRY(SYS(setsid, 0, 0, 0));
	for (int i = 0; i < 3; i++) TRY(SYS(dup3, fds[STDIN + i], i, 0)); /* 3, 4, 5 */
	if (plan->flags & TERMINAL) TRY(SYS(ioctl, 0, TIOCSCTTY, 0)); else step++;
	SYS(umask, 022, 0, 0);
	TRY(SYS(chdir, base + plan->dir, 0, 0)); /* 7 */
	step++;
	for (u32 i = 0; i < plan->limits_count; i++) {
		const struct limit *l = (void *)(base + plan->limits + i * sizeof *l);
		r = sys(prlimit64, 0, l->resource, (long)&l->soft, 0, 0, 0);
		if (r < 0) goto failed; /* 8 */
	}
	step++;
	for (u32 i = 0; i < plan->regions_count; i++) {
		const struct region *g = (void *)(base + plan->regions + i * sizeof *g);
		r = sys(mmap, g->at, g->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (r < 0 && r > -4096) goto failed; /* 9 */
		if ((u64)r != g->at) leave(126); /* before Linux 4.17 the flag is a wish */
		memcpy((void *)(g->at + g->offset), base + g->from, g->length);
	}
	TRY(SYS(prctl, PR_SET_NO_NEW_PRIVS, 1, 0)); /* 10 */
	TRY(SYS(landlock_restrict_self, fds[RULESET], 0, 0)); /* 11 */
	struct program program = { plan->filter_count, (void *)(base + plan->filter) };
	TRY(SYS(seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program)); /* 12 */
	/* From here on every call goes through the filter. The listener goes to silk in a message that silk has laid out. */
	*(int *)plan->listener_at = (int)r;
	TRY(SYS(sendmsg, gate, plan->message, 0)); /* 13 */
	TRY(SYS(execve, plan->path, plan->argv, plan->envp)); /* 14 */
failed:
	tell(gate, FAILED | step << 8, (u32)-r);
	leave(127);
}

/* Process 1 of the container: it never runs anything else, and nobody in the container can harm it. When the program has
 * ended it ends whatever is left, says how the program ended, and stays until silk has looked at the container's counters. */
__attribute__((noreturn)) static void rule(void)
{
	SYS(prctl, PR_SET_DUMPABLE, 0, 0); /* /proc/1 is root's */
	int gate = knock(RULER);
	long program = sys(clone, SIGCHLD, 0, 0, 0, 0, 0);
	if (program == 0) {
		SYS(close, gate, 0, 0);
		become();
	}
	if (program < 0) leave(126);
	int status = 0, ended = 0;
	while (!ended) {
		int s;
		long pid = sys(wait4, -1, (long)&s, 0, 0, 0, 0);
		if (pid == program) status = s, ended = 1;
		if (pid < 0 && pid != -EINTR) leave(126);
	}
	for (long pid = 0; pid >= 0 || pid == -EINTR;) { /* -ECHILD: alone */
		SYS(kill, -1, SIGKILL, 0);
		pid = sys(wait4, -1, 0, 0, 0, 0, 0);
	}
	tell(gate, ENDED, (u32)status);
	u64 ignored;
	while (SYS(read, gate, &ignored, sizeof ignored) == -EINTR);
	leave(0);
}

/* On the host: descriptor 0 leads to silk, which sends the process 1 of a container as a pidfd. If silk's end is closed
 * before it says that all is well, that process is ended, which ends its PID namespace, and the engine is told to remove the
 * container. argv: "reap", path of the engine's socket, the request. */
__attribute__((noreturn)) static void reap(char **argv)
{
	int ruler = -1;
	for (;;) {
		u64 word;
		int fds[1] = { -1 };
		long got = receive(0, &word, sizeof word, fds, 1);
		if (got == sizeof word && word == WELL) leave(0);
		if (got <= 0) break;
		if (fds[0] >= 0) ruler = fds[0];
	}
	if (ruler >= 0) sys(pidfd_send_signal, ruler, SIGKILL, 0, 0, 0, 0);
	struct address engine = { AF_UNIX, "" };
	usize n = 0, length = 0;
	while (argv[1][n] && n < sizeof engine.path - 1) engine.path[n] = argv[1][n], n++;
	while (argv[2][length]) length++;
	int fd = SYS(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || SYS(connect, fd, &engine, sizeof engine)) leave(1);
	SYS(write, fd, argv[2], length);
	char answer[512];
	while (SYS(read, fd, answer, sizeof answer) > 0); /* until it is done */
	leave(0);
}

__attribute__((noreturn, used)) void start(long *stack)
{
	char **argv = (void *)(stack + 1);
	if (stack[0] == 3 && argv[0][0] == 'r') reap(argv);
	rule();
}

__attribute__((naked, noreturn, used)) void _start(void)
{
	__asm__("xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call start\n");
}
