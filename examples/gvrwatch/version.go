package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// released is the version of a release. The linker sets it in archives, whose build has no version of its own.
var released string

// versions is what version prints.
type versions struct {
	Gvrwatch string `json:"gvrwatch"`
	Library  string `json:"library"`
	ClientGo string `json:"clientGo"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion(streams genericiooptions.IOStreams) *cobra.Command {
	var output string
	var short bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program and of the libraries in it",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := oneOf("output", output, "", "json", "yaml"); err != nil {
				return err
			}
			return asRunError(printVersions(streams, thisProgram(), output, short))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format: json, yaml.")
	cmd.Flags().BoolVar(&short, "short", false, "Print the version of the program alone.")
	cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, noFiles))
	return cmd
}

func thisProgram() versions {
	info, _ := debug.ReadBuildInfo()
	return versionsOf(info, released)
}

// versionsOf reads the versions from what the go command has put into the program. It may be nil.
func versionsOf(info *debug.BuildInfo, released string) versions {
	v := versions{
		Gvrwatch: "(unknown)", Library: "(unknown)", ClientGo: "(unknown)",
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info == nil {
		return v
	}
	v.Gvrwatch = info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && v.Gvrwatch == "(devel)" {
			v.Gvrwatch += " " + s.Value
		}
	}
	if released != "" {
		v.Gvrwatch = released
	}
	for _, m := range info.Deps {
		version := m.Version
		if m.Replace != nil && m.Replace.Version == "" {
			version = "(devel)" // a folder
		}
		switch m.Path {
		case "github.com/gvrwatch/gvrwatch":
			v.Library = version
		case "k8s.io/client-go":
			v.ClientGo = version
		}
	}
	return v
}

func printVersions(streams genericiooptions.IOStreams, v versions, output string, short bool) error {
	switch {
	case output != "":
		d := documents{w: streams.Out, yaml: output == "yaml"}
		return d.print(v)
	case short:
		_, err := fmt.Fprintln(streams.Out, v.Gvrwatch)
		return err
	}
	_, err := fmt.Fprintf(streams.Out, "gvrwatch %s\nlibrary %s\nclient-go %s\n%s %s\n",
		v.Gvrwatch, v.Library, v.ClientGo, v.Go, v.Platform)
	return err
}
