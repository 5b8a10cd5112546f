package egress

import (
	"net/netip"
	"testing"
)

func TestSpecial(t *testing.T) {
	for _, test := range []struct{ addr, want string }{
		{"93.184.215.14", ""},
		{"8.8.8.8", ""},
		{"2606:4700::1111", ""},
		{"2a00:1450:4001:82a::200e", ""},
		{"127.0.0.1", "a loopback address"},
		{"127.255.255.254", "a loopback address"},
		{"::1", "a loopback address"},
		{"::ffff:127.0.0.1", "a loopback address"},
		{"64:ff9b::7f00:1", "a loopback address"},
		{"64:ff9b::a9fe:a9fe", "the metadata service of clouds"},
		{"64:ff9b::808:808", ""},
		{"2002:7f00:1::", "a loopback address"},
		{"2002:c0a8:101::1", "a private address"},
		{"::ffff:0:10.0.0.1", "a private address"},
		{"::127.0.0.1", "a translated address"},
		{"64:ff9b:1::1", "a translated address"},
		{"0.0.0.0", "an address of this network"},
		{"0.1.2.3", "an address of this network"},
		{"::", "no address"},
		{"10.1.2.3", "a private address"},
		{"172.16.0.1", "a private address"},
		{"172.31.255.255", "a private address"},
		{"172.32.0.1", ""},
		{"192.168.1.1", "a private address"},
		{"fd12::1", "a private address"},
		{"fec0::1", "a private address"},
		{"169.254.1.1", "a link-local address"},
		{"169.254.169.254", "the metadata service of clouds"},
		{"168.63.129.16", "the metadata service of clouds"},
		{"fd00:ec2::254", "the metadata service of clouds"},
		{"fe80::1", "a link-local address"},
		{"fe80::1%eth0", "a link-local address"},
		{"100.64.0.1", "an address behind a carrier's translator"},
		{"100.127.255.255", "an address behind a carrier's translator"},
		{"100.128.0.1", ""},
		{"224.0.0.251", "a multicast address"},
		{"ff02::fb", "a multicast address"},
		{"255.255.255.255", "a broadcast address"},
		{"240.0.0.1", "a reserved address"},
		{"192.0.2.1", "an address for documentation"},
		{"2001:db8::1", "an address for documentation"},
		{"198.18.0.1", "an address for benchmarks"},
		{"2001::1", "a reserved address"},
		{"4000::1", "an unassigned address"},
	} {
		if got := Special(netip.MustParseAddr(test.addr)); got != test.want {
			t.Errorf("Special(%s) = %q, want %q", test.addr, got, test.want)
		}
	}
}
