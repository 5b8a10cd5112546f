package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man [DIR]", Hidden: true, Short: "Write the manual page, to stdout or as DIR/silk.1",
		Args: needArgs(0, 1, "at most one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			page := manPage(cmd.Root())
			if len(args) == 0 {
				return a.print("%s", strings.TrimSuffix(page, "\n"))
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return atomicfile.Write(filepath.Join(args[0], "silk.1"), []byte(page), 0o644)
		},
	}
}

// manPage is one page for all verbs, in man(7) markup. It is written here because cobra's own needs a Markdown
// renderer, in a program whose start counts.
func manPage(root *cobra.Command) string {
	var b strings.Builder
	line := func(parts ...string) { b.WriteString(strings.Join(parts, "") + "\n") }
	line(`.TH SILK 1 "" "silk ` + roff(version) + `" "User Commands"`)
	line(".SH NAME")
	line(`silk \- ` + roff(strings.ToLower(root.Short[:1])+root.Short[1:]))
	line(".SH SYNOPSIS")
	for _, c := range leaves(root) {
		line(`\fB` + roff(c.CommandPath()) + `\fR` + roff(strings.TrimPrefix(c.UseLine(), c.CommandPath())))
		line(".br")
	}
	line(".SH DESCRIPTION")
	line(roff(root.Long))
	line(".SH OPTIONS OF EVERY VERB")
	manFlags(&b, root.PersistentFlags())
	for _, c := range leaves(root) {
		line(".SH " + strings.ToUpper(roff(c.CommandPath())))
		line(roff(or(c.Long, c.Short+".")))
		manFlags(&b, c.LocalNonPersistentFlags())
		if c.Example != "" {
			line(".PP\n.nf")
			line(roff(c.Example))
			line(".fi")
		}
	}
	line(".SH EXIT STATUS")
	for _, row := range [][2]string{
		{"0", "the program exited 0, or the verb did what it should"},
		{"1 to 255", "the program exited so, or was ended by signal n: 128+n"},
		{"1", "the answer of a check (audit verify, image verify, doctor) is no"},
		{"124", "timeout: the wall clock limit ended the run"},
		{"125", "error: silk or the host failed, or the command line cannot be read"},
		{"126", "denied: refused before the start by profile, plan or owner"},
		{"130", "canceled"},
		{"137", "oom: the memory limit ended the run"},
		{"159", "violated: policy ended the run"},
	} {
		line(".TP\n.B ", row[0], "\n", roff(row[1]))
	}
	line(".SH ENVIRONMENT")
	for _, row := range [][2]string{
		{"SILK_HOME", "state directory"},
		{"SILK_CONFIG", "configuration file"},
		{"SILK_MIRROR", "URL of a Debian archive for image build"},
		{"SILK_NPM_REGISTRY", "URL of an npm registry for image build"},
		{"SILK_KERNEL", "image that virtual machines boot, instead of kernel"},
		{"SILK_CONSOLE", "not empty: machines of Firecracker's have a serial console, whose end stands in errors; slower"},
		{"SILK_SENTRY", "path of the sandbox kernel, instead of the one inside silk; for its development"},
		{"NO_COLOR", "if not empty, output is never coloured"},
	} {
		line(".TP\n.B ", row[0], "\n", roff(row[1]))
	}
	line(".SH FILES")
	line(".TP\n.B ~/.config/silk/config.yaml\n", "configuration of the user; keys: home, system_store, profiles, grants (max, hosts, stores), mirror, npm_registry")
	line(".TP\n.B /etc/silk/config.yaml\n", "configuration of the host, read if the user has none")
	line(".TP\n.B /var/lib/silk, ~/.local/share/silk\n", "state directory of root, of others")
	return b.String()
}

func manFlags(b *strings.Builder, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		b.WriteString(".TP\n.B ")
		if f.Shorthand != "" {
			b.WriteString(roff("-" + f.Shorthand + ", "))
		}
		b.WriteString(roff("--"+f.Name+tail(" ", name)) + "\n" + roff(usage) + "\n")
	})
}

// leaves are the verbs that do something, in the order of help.
func leaves(c *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, below := range c.Commands() {
		if !below.IsAvailableCommand() {
			continue
		}
		if below.HasAvailableSubCommands() {
			out = append(out, leaves(below)...)
			continue
		}
		out = append(out, below)
	}
	return out
}

// roff escapes text for man(7): backslashes, hyphens that are typed, and a dot or quote that begins a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if l == "" {
			lines[i] = ".PP"
		} else if l[0] == '.' || l[0] == '\'' {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
