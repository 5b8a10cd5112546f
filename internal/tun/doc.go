// Package tun gives a network namespace of another process an interface whose wire is a socket, each message of which is one IP packet: what
// package link is to a stack of gVisor's, for a namespace whose stack is the host's kernel.
//
// The interface is a tun device (Documentation/networking/tuntap.rst) that lives as long as this process has it open: whoever kills this process, or
// closes the other end of the socket, takes the network away, and never opens another. Nothing is made in the namespace of this process, and
// no packet passes through it.
//
// It needs root: the capabilities to enter the namespace (CAP_SYS_ADMIN) and to configure it (CAP_NET_ADMIN).
package tun
