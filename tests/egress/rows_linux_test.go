package egress

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/run"
)

// attempt is one program's try at a row.
type attempt struct {
	Word string `json:"word"`
	Do   string `json:"do"`

	row     row
	image   string
	control *attempt // nil: of what gets through, or has its control on the host

	batch *batch
}

// batch are attempts with the same program under the same rules: they share a sandbox.
type batch struct {
	image, net string
	more       []string // rules that controls add
	targets    []string // of the configuration
	as         who
	attempts   []*attempt

	got     result
	err     error
	answers map[string]answer
}

// answer is what a program says of an attempt.
type answer struct {
	Word  string `json:"word"`
	Said  string `json:"said"`
	Error string `json:"error"`
}

// scripts are what programs are started with.
var scripts = map[string][]string{
	python: {"python3", "lib.py"},
	node:   {"node", "lib.mjs"},
	curl:   {"bash", "lib.sh"},
}

// firstWord is the number of the first attempt's word: those before are of other tests.
const firstWord, firstMachineWord = 1000, 5000

// batches collects attempts.
type batches struct {
	all   map[string]*batch
	words int
}

// in finds a batch.
func (bs *batches) in(image, net, shared string, as who) *batch {
	key := fmt.Sprint(image, net, shared, as.name)
	b := bs.all[key]
	if b == nil {
		b = &batch{image: image, net: net, as: as, answers: map[string]answer{}}
		bs.all[key] = b
	}
	return b
}

// add adds what a program tries; as is the last letter of its word.
func (b *batch) add(bs *batches, r row, as string) *attempt {
	bs.words++
	a := &attempt{Word: fmt.Sprintf("w%d%sw", bs.words, as), row: r, image: b.image, batch: b}
	a.Do = strings.ReplaceAll(r.programs()[b.image], "{word}", a.Word)
	b.attempts = append(b.attempts, a)
	return a
}

// addControl adds the same with what lets it through, as root. Those that only need something more share a sandbox that has it all.
func (bs *batches) addControl(r row, image string) *attempt {
	c := r.Control
	if c.Net != "" {
		b := bs.in(image, c.Net, fmt.Sprint(c.Targets), root)
		b.targets = c.Targets
		return b.add(bs, r, "c")
	}
	b := bs.in(image, r.Net, "controls", root)
	for rule := range strings.SplitSeq(c.Add, ",") {
		if rule != "" && !slices.Contains(b.more, rule) {
			b.more = append(b.more, rule)
		}
	}
	for _, target := range c.Targets {
		if !slices.Contains(b.targets, target) {
			b.targets = append(b.targets, target)
		}
	}
	return b.add(bs, r, "c")
}

// rules are those of --net.
func (b *batch) rules() string { return strings.Join(append([]string{b.net}, b.more...), ",") }

// run runs a batch.
func (b *batch) run(t *testing.T) error {
	egress := ""
	if len(b.targets) > 0 {
		text, _ := json.Marshal(b.targets)
		egress = fmt.Sprintf("egress: {targets: %s}\n", text)
	}
	s := newSilk(t, b.as, egress, b.image)
	w := enterWorld(t)
	work, err := json.Marshal(b.attempts)
	if err != nil {
		return err
	}
	script := scripts[b.image]
	lib, err := os.ReadFile(filepath.Join("testdata", script[1]))
	if err != nil {
		return err
	}
	profile := b.image
	if profile == curl {
		profile = "curl"
	}
	args := []string{"-p", profile, "--net", b.rules(), "--timeout", (b.as.patience() / 2).String(), "--env", "SSL_CERT_FILE=/workspace/ca.pem", "--env", "NODE_EXTRA_CA_CERTS=/workspace/ca.pem"}
	for name, content := range map[string][]byte{"attempts.json": work, script[1]: lib, "ca.pem": w.ca.pem} {
		file := filepath.Join(s.Dir, name)
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
		args = append(args, "--file", file)
	}
	b.got, err = s.run(t.Context(), append(append(args, "--"), script...)...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(text(b.got.outcome.Stdout)) {
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			return fmt.Errorf("read what the program says: %w: %s", err, line)
		}
		b.answers[a.Word] = a
	}
	if b.got.outcome.Kind != run.OK {
		return fmt.Errorf("outcome %s: %s; stderr: %s%s", b.got.outcome.Kind, b.got.outcome.Message, text(b.got.outcome.Stderr), b.got.stderr)
	}
	return nil
}

// TestRows runs every row of testdata/rows: each program of it, as root, as an ordinary user, and in containers of Docker.
func TestRows(t *testing.T) {
	enterWorld(t)
	testenv.Require(t, testenv.Userns)
	there := []who{root, user}
	if t.Run("an engine", func(t *testing.T) { enterEngine(t) }); theEngine != nil && theEngine.err == nil {
		there = append(there, container)
	}
	testRows(t, there, firstWord, func(string, string) bool { return true })
}

// TestRowsInMachines runs in virtual machines what Python does with names, and with SILK_TEST_MICROVM=all every row. Controls are in ordinary sandboxes.
func TestRowsInMachines(t *testing.T) {
	testenv.Require(t, testenv.QEMU, testenv.Image("kernel"))
	testRows(t, []who{machine}, firstMachineWord, func(suite, image string) bool {
		return os.Getenv("SILK_TEST_MICROVM") == "all" || suite == "names" && image == python
	})
}

// testRows runs rows in the sandboxes of some. Their words are numbered from first on; which says what is tried, by suite and image.
func testRows(t *testing.T, there []who, first int, which func(suite, image string) bool) {
	w := enterWorld(t)
	files, err := filepath.Glob("testdata/rows/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("find rows: %d files, %v", len(files), err)
	}
	suites := map[string]suite{"addresses": addresses()}
	for _, file := range files {
		s, err := loadSuite(file)
		if err != nil {
			t.Fatal(err)
		}
		suites[strings.TrimSuffix(filepath.Base(file), ".yaml")] = s
	}
	bs := &batches{all: map[string]*batch{}, words: first}
	rows := map[string][]*attempt{} // by the name of their test
	for name, s := range suites {
		for _, r := range s.Rows {
			for image := range r.programs() {
				if !which(name, image) {
					continue
				}
				var its *attempt
				if c := r.Control; c != nil && c.Host == "" {
					its = bs.addControl(r, image)
				}
				for _, as := range there {
					a := bs.in(image, r.Net, "", as).add(bs, r, as.name[:1])
					a.control = its
					rows[name+"/"+r.Name] = append(rows[name+"/"+r.Name], a)
				}
			}
		}
	}
	before := w.now()
	var all sync.WaitGroup
	slots := make(chan struct{}, 2)
	for _, b := range bs.all {
		slots <- struct{}{}
		all.Go(func() {
			b.err = b.run(t)
			<-slots
		})
	}
	all.Wait()
	t.Logf("%d rows, %d attempts in %d sandboxes", len(rows), bs.words-first, len(bs.all))
	for name, attempts := range rows {
		t.Run(name, func(t *testing.T) {
			for _, a := range attempts {
				t.Run(a.image+" as "+a.batch.as.name, func(t *testing.T) {
					a.check(t, w)
					if t.Failed() {
						t.Logf("why this row: %s\nattempt %q under %s: %+v\nseen: %q\nsilk says: %+v", a.row.Why, a.Do, a.batch.net, a.batch.answers[a.Word], w.of(a.Word, ""), a.batch.got.of(a))
					}
				})
			}
		})
	}
	declared := declaredBy(bs)
	for _, name := range w.asked(before) {
		if !slices.ContainsFunc(declared, func(f func(string) bool) bool { return f(name) }) {
			t.Errorf("the resolver was asked for %q, which no rule has", name)
		}
	}
}

// check holds an attempt, and its control, against the row.
func (a *attempt) check(t *testing.T, w *world) {
	if a.batch.err != nil {
		t.Fatal(a.batch.err)
	}
	got, ok := a.batch.answers[a.Word]
	if !ok {
		t.Fatal("the program says nothing of it")
	}
	if p := regexp.MustCompile(a.row.Says); !p.MatchString(got.Said + got.Error) {
		t.Errorf("it came to %+v, want %s", got, p)
	}
	seen := w.of(a.Word, "")
	if a.row.Refused == nil && !a.row.Silent {
		if got.Error != "" || len(seen) == 0 != a.row.Unseen {
			t.Errorf("it did not get through: %s", got.Error)
		}
		return
	}
	if got.Error == "" || len(seen) > 0 {
		t.Errorf("it got through")
	}
	if want := a.row.Refused; want != nil {
		kind := want.Kind
		if kind == "" {
			kind = "tcp"
		}
		d, ok := a.batch.got.refusal(kind, strings.ReplaceAll(want.Host, "{word}", a.Word), want.Port, want.Rule)
		if !ok || !regexp.MustCompile(want.Reason).MatchString(d.Reason) {
			t.Errorf("silk says %+v, want %+v", a.batch.got.of(a), *want)
		}
	}
	if a.control != nil {
		a.control.checkControl(t, w)
		return
	}
	if err := reach(t.Context(), a.row.Control.Host, a.Word); err != nil {
		t.Errorf("the control: %v", err)
	}
}

// checkControl sees whether the same attempt gets through.
func (a *attempt) checkControl(t *testing.T, w *world) {
	if a.batch.err != nil {
		t.Fatalf("the control: %v", a.batch.err)
	}
	got := a.batch.answers[a.Word]
	if p := regexp.MustCompile(a.row.Control.Says); got.Word == "" || got.Error != "" || !p.MatchString(got.Said) {
		t.Errorf("the control %q under %s and %v came to %+v; seen: %q; silk says %+v", a.Do, a.batch.rules(), a.batch.targets, got, w.of(a.Word, ""), a.batch.got.of(a))
	}
	if len(w.of(a.Word, "")) == 0 && !a.row.Control.Unseen {
		t.Errorf("no server has seen the control %q under %s", a.Do, a.batch.rules())
	}
}

// of is what an outcome says of the hosts that are in what a program does.
func (r result) of(a *attempt) (said []run.Destination) {
	for _, d := range r.outcome.Egress {
		if strings.Contains(a.Do, d.Host) {
			said = append(said, d)
		}
	}
	return said
}

// reach reaches a server from the host, as a control says, and waits for its answer.
func reach(ctx context.Context, where, text string) error {
	kind, addr, _ := strings.Cut(where, " ")
	network, message := "udp", []byte(text)
	switch kind {
	case "dns":
		m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(text + ".other.test."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
		var err error
		if message, err = m.Pack(); err != nil {
			return err
		}
	case "ping":
		network = "ip4:icmp"
		message = append([]byte{8, 0, 0, 0, 0, 7, 0, 1}, text...) // echo request, RFC 792
		sum := uint32(0)
		for i := 0; i < len(message)-1; i += 2 {
			sum += uint32(message[i])<<8 | uint32(message[i+1])
		}
		if len(message)%2 == 1 {
			sum += uint32(message[len(message)-1]) << 8
		}
		sum = sum&0xffff + sum>>16
		binary.BigEndian.PutUint16(message[2:], ^uint16(sum+sum>>16))
	}
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Write(message); err != nil {
		return err
	}
	b := make([]byte, 1000)
	n, err := c.Read(b)
	if err == nil && !bytes.Contains(b[:n], []byte(text)) {
		err = fmt.Errorf("another answer came: %q", b[:n])
	}
	return err
}

// declaredBy are the names that rules of the batches have.
func declaredBy(bs *batches) (names []func(string) bool) {
	for _, b := range bs.all {
		for rule := range strings.SplitSeq(b.rules(), ",") {
			host := rule[:max(0, strings.LastIndexByte(rule, ':'))]
			for _, p := range []string{"tcp:", "tls:", "http:"} {
				host = strings.TrimPrefix(host, p)
			}
			below, isBelow := strings.CutPrefix(host, "*")
			names = append(names, func(name string) bool { return name == host || isBelow && strings.HasSuffix(name, below) })
		}
	}
	return slices.Clip(names)
}
