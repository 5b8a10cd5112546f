package broker

// DirName is the name of the directory of logs inside a state directory.
const DirName = "streams"

// Salvage returns what the log of a run that nobody finished has of one channel; nil if there is no log.
func Salvage(dir, run, channel string) ([]byte, error) {
	out, err := RecoverOutput(dir, run)
	if channel == "stderr" {
		return out.Stderr, err
	}
	return out.Stdout, err
}
