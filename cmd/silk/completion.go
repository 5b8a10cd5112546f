package main

import (
	"github.com/spf13/cobra"
)

func (a *app) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion SHELL", Short: "Print a completion script for bash, zsh, fish or powershell",
		Args: needArgs(1, 1, "one shell: bash, zsh, fish or powershell"), ValidArgs: shells,
		Example: `  silk completion bash > /etc/bash_completion.d/silk
  silk completion zsh > "${fpath[1]}/_silk"
  silk completion fish > ~/.config/fish/completions/silk.fish`,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.out, true)
			case "zsh":
				return root.GenZshCompletion(a.out)
			case "fish":
				return root.GenFishCompletion(a.out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.out)
			}
			return usagef("no completion for shell %q; there are bash, zsh, fish and powershell", args[0])
		},
	}
}
