package note

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Result is what a run has come to, as far as a note shows it.
type Result struct {
	Run      string
	Outcome  string // ok, failed, ...: as in the run's record
	Reason   string // of an error
	Phase    string // "compile" when the compiler failed
	Message  string
	ExitCode *int
	Signal   int
	Wall     time.Duration

	Rule, Syscall, Argument string // of a violation or denial

	Stdout, Stderr Channel
	Flags          map[string]int64 // limits that were hit without ending the run
	Images         []Image
	Results        []Shown
	Handoffs       []Handoff
	Kept           []Destination // from which the program was kept

	// Stable leaves out what is another one each time: the duration, the id of the run, and what has it.
	Stable bool
}

// Channel is stdout or stderr of a run.
type Channel struct {
	Kept      []byte // the first bytes, up to the run's output limit
	Bytes     int64  // everything that the program wrote
	Truncated bool   // Kept is not all of it
}

// Image is a picture among the artifacts of a run.
type Image struct {
	Artifact string // its path in the run
	Path     string // its path in the vault, with slashes
}

// Destination is a host with a port, or a name that was looked up.
type Destination struct {
	Host string
	Port int // 0: a look-up
}

// Handoff says that the run was handed on.
type Handoff struct {
	Receiver string
	Note     string // path of the note in the vault that it becomes; "": in none
}

const (
	callTitle  = "silk-sandbox output"
	remark     = "silk-sandbox: "
	separator  = "<!-- silk-sandbox -->"
	stderrLine = "[!widow-red] stderr"
	dot        = " · "

	maxImages = 20
	maxKept   = 3
	imageDir  = "silk-" // and the run, or the block
)

// lines renders r as a callout that begins at the first column.
func (r *Result) lines() []string {
	kind := "[!quote]- "
	if r.Outcome != "ok" {
		kind = "[!danger] "
	}
	out := quote(1, []string{kind + r.title()})
	if text := r.logLine(); text != "" {
		out = append(out, quote(1, fenced("log", []string{text}))...)
	}
	stdout, stderr := plain(r.Stdout.Kept, usual), plain(r.Stderr.Kept, usual)
	out = append(out, quote(1, r.remarks(stdout, stderr))...)
	out = append(out, quote(1, r.shown())...)
	out = append(out, quote(1, stdout.fenced())...)
	if !stderr.empty() {
		out = append(out, quote(2, append([]string{stderrLine}, stderr.fenced()...))...)
	}
	return out
}

// usual is what a note shows of a channel.
var usual = window{headLines: 150, headBytes: 48 << 10, tailLines: 50, tailBytes: 16 << 10, columns: 2000}

// quote puts lines into so many quotes.
func quote(level int, lines []string) []string {
	mark := strings.Repeat(">", level)
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = mark
		if l != "" {
			out[i] += " " + l
		}
	}
	return out
}

// title is the first line. All of it is ours, or made harmless: it is Markdown.
func (r *Result) title() string {
	parts := []string{callTitle, word(r.Outcome)}
	add := func(s string) { parts = append(parts, s) }
	if r.Phase != "" {
		add(word(r.Phase))
	}
	if r.Reason != "" {
		add(word(r.Reason))
	}
	if r.Rule != "" {
		add(word(r.Rule))
	}
	switch {
	case r.Outcome != "ok" && r.Outcome != "failed":
	case r.Signal != 0:
		add("signal " + strconv.Itoa(r.Signal))
	case r.ExitCode != nil:
		add("exit " + strconv.Itoa(*r.ExitCode))
	}
	if !r.Stable {
		if r.Wall > 0 {
			add(duration(r.Wall))
		}
		add("run " + word(r.Run))
	}
	return strings.Join(parts, dot)
}

// word is a name in a title: of outcomes, rules, runs.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(".-_:", r)) {
			return r
		}
		return '-'
	}, s[:min(len(s), 64)])
}

// duration is a time for people.
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatInt(max(1, d.Milliseconds()), 10) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}

// logLine says in one line what a bad end was about.
func (r *Result) logLine() string {
	switch r.Outcome {
	case "violated":
		return oneLine(strings.Join(slices.DeleteFunc([]string{"violation", r.Rule, r.Syscall, r.Argument}, func(s string) bool { return s == "" }), " "))
	case "ok", "failed":
		return ""
	}
	return oneLine(r.Message)
}

// remarks are the lines about what is not shown, and the links.
func (r *Result) remarks(stdout, stderr shown) (out []string) {
	for _, c := range []struct {
		name  string
		shown shown
		of    Channel
	}{{"stdout", stdout, r.Stdout}, {"stderr", stderr, r.Stderr}} {
		if c.of.Truncated {
			out = append(out, fmt.Sprintf("%sof %s the first %d of %d bytes are kept, which is the run's limit", remark, c.name, len(c.of.Kept), c.of.Bytes))
		}
		var what []string
		if c.shown.omitted > 0 {
			what = append(what, fmt.Sprintf("%d lines are left out", c.shown.omitted))
		}
		if c.shown.shortened {
			what = append(what, "long lines are cut")
		}
		if what == nil {
			continue
		}
		text := remark + "of " + c.name + " " + strings.Join(what, " and ")
		if !r.Stable {
			text += dot + "[full log](" + logAddress + word(r.Run) + ")" + dot + "`silk runs logs " + word(r.Run) + "`"
		}
		out = append(out, text)
	}
	var hit []string
	for _, k := range slices.Sorted(maps.Keys(r.Flags)) {
		if k != "output_truncated" { // is said above, of its channel
			hit = append(hit, word(k)+" "+strconv.FormatInt(r.Flags[k], 10))
		}
	}
	if hit != nil {
		out = append(out, remark+"limits hit: "+strings.Join(hit, ", "))
	}
	if r.Kept != nil {
		out = append(out, remark+"the network was refused: "+kept(r.Kept))
	}
	if to := r.receivers(); to != nil && !r.Stable {
		out = append(out, remark+"handed on to "+strings.Join(to, " and ")+dot+"`silk handoffs ls --run "+word(r.Run)+"`")
	}
	return out
}

// kept names destinations, in the order of their names: which one was tried first may be another one each time. The program has chosen them.
func kept(list []Destination) string {
	var texts []string
	for _, d := range list {
		text := word(d.Host)
		if d.Port != 0 {
			text += " port " + strconv.Itoa(d.Port)
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	if more := len(texts) - maxKept; more > 0 {
		texts = append(texts[:maxKept], fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}

// receivers are those of the hand-offs, with links to their notes, in the order of their names.
func (r *Result) receivers() (list []string) {
	for _, h := range slices.SortedFunc(slices.Values(r.Handoffs), func(a, b Handoff) int { return cmp.Compare(a.Receiver, b.Receiver) }) {
		to := word(h.Receiver)
		if note := strings.TrimSuffix(h.Note, ".md"); note != "" && !strings.ContainsFunc(note, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune("[]|#^\\%`", r) }) {
			to = "[[" + note + "|" + to + "]]"
		}
		list = append(list, to)
	}
	return list
}

// logAddress opens the run in the Obsidian plugin, which shows all that was kept.
const logAddress = "obsidian://silk-sandbox?run="

func (s shown) fenced() []string {
	if s.empty() {
		return nil
	}
	lines := slices.Clone(s.head)
	if s.omitted > 0 {
		lines = append(lines, fmt.Sprintf("… %d lines …", s.omitted))
	}
	return fenced("text", append(lines, s.tail...))
}

// fenced puts lines into a fence that none of them can close: it is longer than any run of its character in them.
func fenced(info string, lines []string) []string {
	ticks, tildes := 2, 2
	for _, l := range lines {
		ticks, tildes = max(ticks, longest(l, '`')), max(tildes, longest(l, '~'))
	}
	fence := strings.Repeat("`", ticks+1)
	if tildes < ticks {
		fence = strings.Repeat("~", tildes+1)
	}
	return slices.Concat([]string{fence + info}, lines, []string{fence})
}

// longest is the length of the longest run of c in s.
func longest(s string, c byte) (most int) {
	for n, i := 0, 0; i < len(s); i++ {
		if s[i] != c {
			n = 0
			continue
		}
		n++
		most = max(most, n)
	}
	return most
}

// Images chooses where the pictures among the artifacts of a run go in a vault: below folder, in a directory of the run, or, for
// results that are to be stable, of the block. artifacts are paths of the run and their MIME types.
func Images(folder, run string, artifacts []Artifact) []Image {
	var list []Image
	seen := map[string]bool{}
	for _, a := range artifacts {
		ext, ok := extensions[cmp.Or(strings.TrimSpace(strings.SplitN(a.MIME, ";", 2)[0]), "none")]
		if !ok || len(list) == maxImages {
			continue
		}
		base := safeName(strings.ReplaceAll(strings.TrimSuffix(a.Path, path.Ext(a.Path)), "/", "-"))
		name := base + ext
		for i := 2; seen[strings.ToLower(name)]; i++ {
			name = base + "-" + strconv.Itoa(i) + ext
		}
		seen[strings.ToLower(name)] = true
		list = append(list, Image{Artifact: a.Path, Path: path.Join(folder, imageDir+word(run), name)})
	}
	return list
}

// Artifact is one file that a run has made.
type Artifact struct {
	Path, MIME string
	Display    string // type of the result that the program shows by it; "": none
	Bytes      int64
}

// extensions are those of pictures that a note shows. SVG is none: it is a program.
var extensions = map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}

// maxName bounds the name of a file, in characters: file systems take 255 bytes.
const maxName = 60

// safeName is a name that means nothing in Markdown, in wikilinks and on any file system.
func safeName(s string) string {
	var b strings.Builder
	for n, r := range []rune(oneLine(s)) {
		if n == maxName {
			break
		}
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || strings.ContainsRune(" .-_", r) {
			b.WriteRune(r)
		} else {
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), " .")
	if name == "" {
		return "image"
	}
	return name
}

// CheckFolder says what is wrong with the path of a folder for pictures in a vault: relative, with slashes, without what means
// something in a wikilink.
func CheckFolder(folder string) error {
	for part := range strings.SplitSeq(folder, "/") {
		if part == "" || part == "." || part == ".." || part != safeName(part) {
			return fmt.Errorf("the folder for attachments is a path in the vault of letters, digits, spaces and .-_ such as files/attachments, not %s", quoted(folder))
		}
	}
	return nil
}

var (
	titlePattern = regexp.MustCompile(`^\[!(?:quote|danger)\][+-]? ` + callTitle + dot + `\S.*$`)
	runPattern   = regexp.MustCompile(dot + `run ([0-9A-HJKMNP-TV-Z]{26})\s*$`)
	fencePattern = regexp.MustCompile("^(`{3,}|~{3,})(?:text|log)$")
	imagePattern = regexp.MustCompile(`^!\[\[(?:[^\]|]*/)?` + imageDir + `(?:[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{16}(?:-[0-9]+)?)/[^\]|/]+\]\]$`)
)

// result finds the result under a fence: the callout that comes next, if it is one of ours. It ends before the first line that silk
// would not have written there.
func (n *Note) result(f *fence) *Place {
	level := strings.Count(f.prefix, ">")
	at := f.close + 1
	for at < len(n.lines) {
		rest, ok := unquote(n.content(at), level)
		if !ok {
			return nil
		}
		if strings.TrimSpace(rest) != "" {
			break
		}
		at++
	}
	if at == len(n.lines) {
		return nil
	}
	title, ok := unquote(n.content(at), level+1)
	if !ok || !titlePattern.MatchString(title) {
		return nil
	}
	p := &Place{Line: at, start: n.lines[at].start}
	if m := runPattern.FindStringSubmatch(title); m != nil {
		p.Run = m[1]
	}
	next := n.parts(p, at+1, level+1)
	if next < len(n.lines) {
		if rest, ok := unquote(n.content(next), level); ok && strings.TrimSpace(rest) == separator {
			next++
		}
	}
	p.EndLine, p.end = next-1, n.lines[next-1].next
	return p
}

// parts returns the line after those, from line at on, that are parts of result p in quotes of a level.
func (n *Note) parts(p *Place, at, level int) int {
	for at < len(n.lines) {
		rest, ok := unquote(n.content(at), level)
		if !ok {
			return at
		}
		switch inner, quoted := unquote(rest, 1); {
		case strings.HasPrefix(rest, remark), isRow(rest), rest == "" && n.beside(at, level):
			at++
		case len(p.Images) < maxImages && imagePattern.MatchString(rest):
			p.Images = append(p.Images, strings.TrimSuffix(strings.TrimPrefix(rest, "![["), "]]"))
			at++
		case fencePattern.MatchString(rest):
			end, closed := n.fenceEnd(at, level)
			if !closed {
				return at
			}
			at = end
		case quoted && inner == stderrLine && at+1 < len(n.lines):
			rest, ok := unquote(n.content(at+1), level+1)
			if !ok || !fencePattern.MatchString(rest) {
				return at
			}
			end, closed := n.fenceEnd(at+1, level+1)
			if !closed {
				return at
			}
			at = end
		default:
			return at
		}
	}
	return at
}

// fenceEnd returns the line after the fence that line at opens.
func (n *Note) fenceEnd(at, level int) (end int, closed bool) {
	open, _ := unquote(n.content(at), level)
	fence := fencePattern.FindStringSubmatch(open)[1]
	for at++; at < len(n.lines); at++ {
		rest, ok := unquote(n.content(at), level)
		if !ok {
			return 0, false
		}
		if rest == fence {
			return at + 1, true
		}
	}
	return 0, false
}

// unquote takes the markers of so many quotes from the begin of a line, with the indentation before each, and one space after them.
func unquote(line string, level int) (rest string, ok bool) {
	if level == 0 {
		return line, true
	}
	for range level {
		line, ok = strings.CutPrefix(strings.TrimLeft(line, " \t"), ">")
		if !ok {
			return "", false
		}
	}
	return strings.TrimPrefix(line, " "), true
}
