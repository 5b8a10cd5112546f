package note

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/internal/strictyaml"
)

// frontMatter finds the YAML between two lines of --- at the begin of a note, and what its key silk says. body is the line after it.
func (n *Note) frontMatter() (body int, defaults map[string]string, fault string) {
	if len(n.lines) == 0 || strings.TrimRight(strings.TrimPrefix(n.content(0), n.bom()), " \t") != "---" {
		return 0, nil, ""
	}
	end := 1
	for ; end < len(n.lines); end++ {
		if strings.TrimRight(n.content(end), " \t") == "---" {
			break
		}
	}
	if end >= len(n.lines) {
		return 0, nil, ""
	}
	section, fault := n.silkSection(1, end)
	if section == "" || fault != "" {
		return end + 1, nil, fault
	}
	defaults, fault = readDefaults(section)
	return end + 1, defaults, fault
}

// maxSection bounds what the key silk says, in bytes: each block has it.
const maxSection = 4 << 10

// silkSection is the lines of the key silk alone: what else is there is for others, who may not be as strict.
func (n *Note) silkSection(from, to int) (section, fault string) {
	var b strings.Builder
	in, seen := false, false
	for i := from; i < to; i++ {
		line := n.content(i)
		top := line != "" && !strings.ContainsAny(line[:1], " \t#-")
		if top {
			key, _, _ := strings.Cut(line, ":")
			in = strings.Trim(strings.TrimSpace(key), `"'`) == "silk"
			if strings.ContainsAny(line[:1], "{?!&*") && strings.Contains(line, "silk") { // it may say off
				return "", "the key silk is not read in this form; write silk: on a line of its own"
			}
			if in && seen {
				return "", "the key silk is there twice"
			}
			seen = seen || in
		}
		if in {
			b.WriteString(line + "\n")
			if b.Len() > maxSection {
				return "", fmt.Sprintf("the key silk has more than %d KiB", maxSection>>10)
			}
		}
	}
	return b.String(), ""
}

// readDefaults reads `silk:` with a map of attributes, or with off or false, which no block of the note runs under.
func readDefaults(section string) (defaults map[string]string, fault string) {
	d, root := strictyaml.Open("", []byte(section))
	defaults = map[string]string{}
	off := false
	d.Entries(root, "front matter", func(_ string, _, value strictyaml.Node) {
		var probe strictyaml.Decoder
		if text := probe.Text(value, "silk"); probe.Err() == nil {
			off = slices.Contains([]string{"off", "false", "no"}, strings.ToLower(text))
			if !off {
				d.Fail(value, "silk is a map of attributes, or off")
			}
			return
		}
		d.Entries(value, "silk", func(key string, at, value strictyaml.Node) {
			if wrong := checkDefault(key); wrong != "" {
				d.Fail(at, "%s", wrong)
				return
			}
			text := d.Text(value, key)
			if slices.Contains(flagAttributes, key) {
				switch text {
				case "true":
					defaults[key] = ""
				case "false":
				default:
					d.Fail(value, "%s is true or false", key)
				}
				return
			}
			defaults[key] = text
		})
	})
	if off {
		defaults["off"] = ""
	}
	if err := d.Err(); err != nil {
		var all *strictyaml.Error
		if errors.As(err, &all) && len(all.Faults) > 0 {
			return nil, all.Faults[0].Text
		}
		return nil, "it cannot be read"
	}
	return defaults, ""
}

func checkDefault(key string) (wrong string) {
	if key == "auto" {
		return "auto is said by each block itself"
	}
	return checkAttribute(key, !slices.Contains(flagAttributes, key))
}
