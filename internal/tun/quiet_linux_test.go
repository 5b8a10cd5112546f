package tun

import "testing"

func TestQuietTable(t *testing.T) {
	const (
		head  = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
		idle  = "   0: 0200127E:A0B2 0100127E:0050 01 00000000:00000000 00:00000000 00000000  1000        0 123 1 0 20 4 30 10 -1\n"
		takes = "   1: 0200127E:A0B2 0100127E:0050 01 00000000:00000400 00:00000000 00000000  1000        0 123 1 0 20 4 30 10 -1\n"
		sends = "   2: 0200127E:A0B2 0100127E:0050 04 00000001:00000000 01:00000014 00000000     0        0 0 1 0 20 4 30 10 -1\n"
	)
	for table, want := range map[string]bool{"": true, head: true, head + idle + takes: true, head + idle + sends: false, head + sends[:40]: true, "x\nx x x x x\n": false} {
		if got := quietTable([]byte(table)); got != want {
			t.Errorf("quietTable(%q) = %t", table, got)
		}
	}
}
