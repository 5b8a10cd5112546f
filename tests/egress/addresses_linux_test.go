package egress

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// places are names that lead to addresses which no rule by name reaches, and what silk says they are.
var places = []struct{ name, what string }{
	{"private10.test", "a private address"},
	{"private172.test", "a private address"},
	{"private192.test", "a private address"},
	{"ula.test", "a private address"},
	{"cgnat.test", "an address behind a carrier's translator"},
	{"linklocal.test", "a link-local address"},
	{"metadata.test", "the metadata service of clouds"},
	{"metadata6.test", "the metadata service of clouds"},
	{"docs.test", "an address for documentation"},
	{"reserved.test", "a reserved address"},
	{"loopback.test", "a loopback address"},
	{"loopback6.test", "a loopback address"},
	{"zero.test", "an address of this network"},
	{"self.test", "an address of this host"},
	{"self6.test", "an address of this host"},
	{"mapped.test", "a private address"},
	{"nat64.test", "a private address"},
	{"sixtofour.test", "a private address"},
}

// addresses are rows of places: refused whatever the resolver says, and reached when the owner's configuration has the line that the refusal
// names.
func addresses() suite {
	s := suite{About: "where allowed names lead"}
	var names []string
	for _, p := range places {
		names = append(names, p.name+":80")
	}
	for _, p := range places {
		addr := netip.MustParseAddr(zone[p.name][0]).Unmap()
		target := fmt.Sprintf("%s/%d:80", addr, addr.BitLen())
		if addr.Is6() {
			target = fmt.Sprintf("[%s/%d]:80", addr, addr.BitLen())
		}
		url := fmt.Sprintf("http://%s/{word}", p.name)
		get := fmt.Sprintf("return get(%q)", url)
		s.Rows = append(s.Rows, row{
			Name: p.name, Why: "a private-address floor is wanted whatever the allow-list says, as names of others lead anywhere (R47)", Net: strings.Join(names, ","),
			Python: get, Node: get, Curl: url, Says: "403",
			Refused: &refused{
				Host: p.name, Port: 80, Rule: "address",
				Reason: regexp.QuoteMeta(fmt.Sprintf("%s leads to %s, which is %s; egress: targets: [%q] in the configuration allows it", p.name, addr, p.what, target)),
			},
			Control: &control{Targets: []string{target}},
		})
	}
	return s
}
