package drivertest

// Shell is the suite's programs for an image with dash as sh, bash, coreutils and gawk: lab:text.
var Shell = Programs{
	"exit code":                             {"sh", "-c", "exit 7"},
	"own signal":                            {"sh", "-c", "kill -TERM $$"},
	"channels are separate and exact":       {"sh", "-c", `printf 'out\000\377\033[1m\n'; echo err >&2`},
	"much output":                           {"sh", "-c", "yes 0123456789 | tr -d '\\n' | head -c 10000000"},
	"output arrives while the program runs": {"sh", "-c", "echo up; sleep 1000"},
	"signal from outside":                   {"sh", "-c", "echo up; sleep 1000"},
	"stdin is at its end by default":        {"cat"},
	"stdin is fed":                          {"cat"},
	"environment is exact":                  {"env"},
	"working directory":                     {"/bin/pwd", "-P"},
	"host name":                             {"uname", "-n"},
	"missing command":                       {"no-such-command"},
	"command that cannot be executed":       {"/workspace/plain"},
	"kill at once":                          {"sh", "-c", "echo up; while :; do :; done"},
	"kill at any moment":                    {"sh", "-c", "echo up; while :; do :; done"},
	"canceled at each step of the start":    {"sh", "-c", "echo up; while :; do :; done"},
	"kill of a sandbox that has ended":      {"sh", "-c", "exit 7"},
	"kill from many goroutines":             {"sh", "-c", "echo up; sleep 1000"},
	"drain after a kill":                    {"sh", "-c", "printf data >kept; echo up; sleep 1000"},
	"workspace in and out": {"sh", "-c", `set -e; cat in.txt; test -x run.sh; test "$(readlink link)" = in.txt; test -s sub/deep.bin
printf made >out.txt; rm gone.txt`},
	"read-only": {"sh", "-c", `cat a.txt
for f in a.txt new sub/new /dev/shm/new /dev/new; do (echo x >$f) 2>/dev/null && echo "wrote $f"; done
rm a.txt 2>/dev/null && echo removed; mkdir d 2>/dev/null && echo made; mv a.txt b.txt 2>/dev/null && echo renamed; chmod 777 sub 2>/dev/null && echo changed
ln -s a.txt l 2>/dev/null && echo linked; touch -t 200001010000 a.txt 2>/dev/null && echo touched; touch a.txt 2>/dev/null && echo touched now
truncate -s 0 a.txt 2>/dev/null && echo cut; chmod +w a.txt 2>/dev/null && echo opened; cat a.txt
echo tmp >/tmp/new && cat /tmp/new`},
	"failed fill fails the start": {"sh", "-c", "echo ran; exit 7"},
	"failed drain fails the wait": {"sh", "-c", "exit 7"},
	"canceled start":              {"sh", "-c", "echo ran; exit 7"},
	"memory limit":                {"sh", "-c", "head -c 200000000 /dev/zero | tail -n 1 | wc -c"},
	"tmp is full":                 {"dd", "if=/dev/zero", "of=/tmp/big", "bs=1M", "count=32"},
	"workspace is full":           {"dd", "if=/dev/zero", "of=/workspace/big", "bs=1M", "count=128"},
	"processes limit":             {"sh", "-c", "i=0; while [ $i -lt 32 ]; do sleep 1000 & i=$((i+1)); done"},
	"no spawn":                    {"sh", "-c", "/bin/true; /bin/echo spawned"},
	"network deny":                {"bash", "-c", "echo before; exec 3<>/dev/tcp/127.0.0.1/9; echo after"},
	"network loopback":            {"bash", "-c", loopback},
	"network beyond loopback":     {"bash", "-c", "exec 3<>/dev/tcp/192.0.2.1/80"},
	"packets over a link": {"bash", "-c", `for to in 192.0.2.1 2001:db8::1; do
	exec 3<>/dev/udp/$to/9; echo hello >&3; head -n 1 <&3
done`},
	"a link whose other end is gone": {"bash", "-c", `echo up
while (echo x >/dev/udp/192.0.2.1/9) 2>/dev/null; do sleep 0.05; done
echo no network`},
	"the other end of a link hears of the end": {"sh", "-c", "echo up; sleep 1000"},
	"forbidden file":                        {"sh", "-c", "echo before; cat /etc/passwd; echo after"},
	"what was seen before a violation":      {"sh", "-c", "echo before; cat /etc/passwd; echo after"},
	"a slow listener":                       {"sh", "-c", "echo before; cat /etc/passwd; echo after"},
	"file outside the trees":                {"sh", "-c", "read -r line < /etc/debian_version && exit 0; exit 1"},
	"descendants end with the main process": {"sh", "-c", "(while :; do sleep 1; echo late; done) & echo up"},
	"usage is counted":                      {"sh", "-c", "exit 7"},
	"two at once":                           {"sh", "-c", "exit 7"},
	"start is traced":                       {"sh", "-c", "exit 7"},
	"terminal":                              {"bash", "-c", "trap 'stty size; exit 0' WINCH; echo up; while :; do sleep 0.1; done"},
}

// loopback has gawk as a server of one line; bash tries until the server listens.
const loopback = `
gawk 'BEGIN { s = "/inet/tcp/8099/0/0"; s |& getline line; print line; close(s) }' &
until (echo over loopback >/dev/tcp/127.0.0.1/8099) 2>/dev/null; do sleep 0.02; done
wait`
