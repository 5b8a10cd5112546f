package bpf

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// denySockets keeps the processes of a control group of version 2, and of those below it, from making INET and INET6
// sockets: socket(2) fails with EPERM, whatever capabilities the process has and whatever network namespace it is in.
// Sockets that exist already go on working, and the kernel asks about no other family (BPF_CGROUP_RUN_PROG_INET_SOCK in
// net/ipv4/af_inet.c and net/ipv6/af_inet6.c). It is the one thing in this package that prevents. It ends when the link is
// closed, as it is when this process ends.
//
// The program is two instructions, which the kernel verifies in microseconds.
func denySockets(group string) (_ link.Link, err error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "silk_sockets", Type: ebpf.CGroupSock, AttachType: ebpf.AttachCGroupInetSockCreate, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}, // 0: deny
	})
	if err != nil {
		return nil, fmt.Errorf("load BPF program that denies sockets: %w", err)
	}
	defer program.Close() // the link keeps it
	l, err := link.AttachCgroup(link.CgroupOptions{Path: group, Attach: ebpf.AttachCGroupInetSockCreate, Program: program})
	if err != nil {
		return nil, fmt.Errorf("deny sockets in control group %s: %w", group, err)
	}
	return l, nil
}
