package gateway

import (
	"fmt"
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/egress"
)

// BenchmarkPass says what a byte costs of the processor, of both ends of the link together: unlike time, that is not what else the machine does.
func BenchmarkPass(b *testing.B) {
	const size = 32 << 20
	for _, way := range []string{"to the sandbox", "from it"} {
		b.Run(way, func(b *testing.B) {
			port := host(b, func(c net.Conn) {
				if way == "from it" {
					_, _ = io.Copy(io.Discard, c)
				} else {
					_, _ = c.Write(make([]byte, size))
				}
			})
			s := enter(b, egress.Config{Rules: rules(b, fmt.Sprintf("tcp:echo.example:%d", port)), Resolve: public}, Config{})
			data := make([]byte, size)
			var before, after unix.Rusage
			_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
			b.SetBytes(size)
			for b.Loop() {
				c, err := s.connect("echo.example", port)
				if err != nil {
					b.Fatal(err)
				}
				if way == "from it" {
					_, _ = c.Write(data)
					_ = c.CloseWrite()
				}
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}
			_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
			cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(cpu)/float64(b.N)/size, "CPU-ns/byte")
		})
	}
}
