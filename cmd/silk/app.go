package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"unicode"

	"golang.org/x/term"

	"github.com/spf13/cobra"
)

// app is one call of silk: where it reads and writes, and what the global flags say. Verbs are its methods.
type app struct {
	in        *os.File
	out, err  io.Writer
	env       func(string) string
	drivers   openDrivers
	contained bool        // this is the monitor of an engine's container
	group     string      // control group that sandboxes belong into; empty: any
	ready     int         // sandbox kernels that wait for runs
	roles     []string    // of a server; nil: those of the configuration
	midLine   atomic.Bool // the program has left a line unfinished on stderr, or on the terminal that stderr is

	homeFlag, configFlag string
	remote               remoteFlags
	json                 bool // the verb's answer is JSON on stdout, one value
	jsonl                bool // with json: a value a line, of which the last is the outcome

	ctx     context.Context        // ends with the first Ctrl-C or SIGTERM; set by main before a verb runs
	restore atomic.Pointer[func()] // gives the terminal back, if silk has changed it
}

func newApp(drivers openDrivers) *app {
	return &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv, drivers: drivers}
}

// main runs one command line and returns the exit status.
func (a *app) main(args []string) int {
	ctx, stop := withSignals(context.Background(), func() {
		if restore := a.restore.Load(); restore != nil {
			(*restore)()
		}
	})
	defer stop()
	a.ctx = ctx

	root := a.root()
	root.SetArgs(args)
	// Faults in flags are found before a verb can see its own --json.
	a.json, a.jsonl = wantsJSON(args)
	err := root.ExecuteContext(ctx)
	return a.report(err)
}

// wantsJSON looks for --json and --jsonl before a bare "--", after which words belong to the program.
func wantsJSON(args []string) (json, lines bool) {
	for _, arg := range args {
		switch arg {
		case "--":
			return json, lines
		case "--json", "--json=true":
			json = true
		case "--jsonl", "--jsonl=true":
			json, lines = true, true
		}
	}
	return json, lines
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "silk",
		Short: "Run code you do not trust in a sandbox",
		Long: `silk runs code you do not trust. It carries its own sandbox kernel (gVisor), so one command isolates, limits,
streams and records a program with nothing else installed: no Docker, no KVM, no daemon, no root.`,
		Example: `  silk run hello.py                         run a file; the profile follows from its extension
  silk run -p lab:python -c 'print(6*7)'    run code from the command line
  silk run -p lab:text -- sh -c 'ls -la'    run a command
  silk run --dir . -p lab:repo -- make test copy a checkout in and test it; it is never written back
  silk image build lab:python               make the image that Python programs run in
  silk runs ls                              what ran, and how it ended`,
		SilenceErrors:         true,
		SilenceUsage:          true,
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().StringVar(&a.homeFlag, "home", "", "state `DIR` (default $SILK_HOME, else /var/lib/silk for root, ~/.local/share/silk for others)")
	root.PersistentFlags().StringVar(&a.configFlag, "config", "", "configuration `FILE` (default $SILK_CONFIG, ~/.config/silk/config.yaml, /etc/silk/config.yaml)")
	a.remote.add(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return checkRemote(cmd) }
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(helpCommand())
	root.SetHelpCommandGroupID("keep")
	root.AddGroup(&cobra.Group{ID: "run", Title: "Run:"}, &cobra.Group{ID: "look", Title: "Look:"}, &cobra.Group{ID: "keep", Title: "Keep house:"})
	for group, commands := range map[string][]*cobra.Command{
		"run":  {a.runCommand(), a.planCommand(), a.noteCommand(), a.serveCommand(), a.mcpCommand(), a.skillCommand(), a.profileCommand(), a.imageCommand(), a.runtimeCommand()},
		"look": {a.runsCommand(), a.recordCommand(), a.handoffsCommand(), a.auditCommand()},
		"keep": {a.tokenCommand(), a.doctorCommand(), a.selftestCommand(), a.gcCommand(), a.versionCommand(), a.completionCommand(), a.manCommand()},
	} {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	return root
}

// helpCommand is for those who type `silk help run`; help itself names --help.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "Show the help of a command, as its --help does", Hidden: true, Args: cobra.ArbitraryArgs, DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 && about.HasSubCommands() {
				return unknownCommand(about, rest[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// group makes a command that only has others below it.
func group(use, short, example string, below ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Example: example, Args: cobra.ArbitraryArgs, DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	c.AddCommand(below...)
	return c
}

// jsonFlag gives a verb that lists or shows something its --json.
func (a *app) jsonFlag(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&a.json, "json", false, "print one JSON value")
	return c
}

func (a *app) errorf(format string, args ...any) {
	a.endLine()
	fmt.Fprintf(a.err, "silk: %s\n", harmless(fmt.Sprintf(format, args...)))
}

// harmless is text in which a terminal finds nothing to obey, whoever has had a part in it, but for silk's own bold type and colours.
func harmless(text string) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '\ufffd'
		}
		return r
	}, text)
	if clean == text {
		return text
	}
	return ownStyle.ReplaceAllString(clean, "\x1b[${1}m")
}

// ownStyle is a style of silk's, of which harmless has taken the first byte.
var ownStyle = regexp.MustCompile("\ufffd\\[([0-9;]*)m")

// endLine ends a line that the program has left unfinished where people read stderr.
func (a *app) endLine() {
	if a.midLine.Swap(false) {
		io.WriteString(a.err, "\n")
	}
}

// isTerminal says whether f is a terminal that people look at.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
