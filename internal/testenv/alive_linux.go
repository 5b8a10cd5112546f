package testenv

import (
	"bytes"
	"os"
	"strconv"
)

// Alive says whether a process runs. One that has ended and that nobody has waited for yet does not, though signals still reach it.
func Alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	after := bytes.LastIndex(stat, []byte(") ")) // behind the name, in which anything may stand: proc_pid_stat(5)
	return err == nil && after >= 0 && !bytes.ContainsAny(stat[after+2:after+3], "ZX")
}
