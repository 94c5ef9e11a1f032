package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

func newCheckpoint(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Show or delete the checkpoints of watch --checkpoint",
		Long: "Show or delete the checkpoints that 'gvrwatch watch --checkpoint FILE' stores in FILE. KEY is\n" +
			"the resource and its group, such as deployments.apps, and _NAME if only one object was watched;\n" +
			"show prints the keys. Only one process at a time can open the file, so these commands fail while\n" +
			"a watch uses it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCheckpointShow(streams), newCheckpointReset(streams))
	return cmd
}

func fileAndKey(_ *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return fmt.Errorf("must have FILE, and may have KEY: got %d arguments", len(args))
	}
	return nil
}

func newCheckpointShow(streams genericiooptions.IOStreams) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show FILE [KEY]",
		Short: "Show the checkpoints in a file, or one of them",
		Example: "  gvrwatch checkpoint show positions.db\n" +
			"  gvrwatch checkpoint show positions.db deployments.apps -o json",
		Args: fileAndKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("output", output, "", "wide", "json", "yaml", "name"); err != nil {
				return err
			}
			return asRunError(withFile(args, func(s *file.Store, keys []string) error {
				return showCheckpoints(cmd.Context(), streams, s, keys, output)
			}))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format: wide, json, yaml, name.")
	return cmd
}

func newCheckpointReset(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "reset FILE [KEY]",
		Short: "Delete the checkpoints in a file, or one of them",
		Long: "Delete the checkpoints in a file, or one of them. The next watch begins with everything that exists;\n" +
			"it does not report what was deleted in the meantime.",
		Args: fileAndKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			return asRunError(withFile(args, func(s *file.Store, keys []string) error {
				for _, key := range keys {
					if err := s.Delete(cmd.Context(), key); err != nil {
						return err
					}
					if err := screen.WriteLine(streams.Out, screen.Text{Text: key + " reset"}); err != nil {
						return err
					}
				}
				return nil
			}))
		},
	}
}

// withFile opens the existing file args[0] and calls do with the key args[1], or with all keys of the file.
func withFile(args []string, do func(*file.Store, []string) error) error {
	if _, err := os.Stat(args[0]); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no such file %s: must be a file that watch --checkpoint has written", args[0])
	}
	s, err := file.Open(args[0])
	if err != nil {
		return explainCheckpoint(args[0], err)
	}
	defer s.Close()
	keys := s.Keys()
	if len(args) == 2 {
		if !slices.Contains(keys, args[1]) {
			return fmt.Errorf("no checkpoint %q in %s: it has %s",
				args[1], args[0], orElse(strings.Join(keys, ", "), "none"))
		}
		keys = args[1:]
	}
	return explainCheckpoint(args[0], do(s, keys))
}

// explainCheckpoint rewords what the errors of package checkpoint say to do: commands have files, and no Stores.
func explainCheckpoint(file string, err error) error {
	var foreign *checkpoint.MismatchError
	var corrupt *checkpoint.CorruptError
	var locked *checkpoint.LockedError
	reset := func(key string) string {
		return strings.TrimSpace(fmt.Sprintf("'gvrwatch checkpoint reset %s %s", file, key)) + "'"
	}
	var old, now string
	switch {
	case errors.As(err, &foreign):
		old, now = "use another key or store, or reset the checkpoint", "use another file, or "+reset(foreign.Key)
	case errors.As(err, &corrupt):
		old, now = "(Store.Delete, gvrwatch checkpoint reset)", "("+reset("KEY")+")"
	case errors.As(err, &locked):
		old, now = "or use another store", "or use another file"
	default:
		return err
	}
	return &rewordedError{strings.Replace(err.Error(), old, now, 1), err}
}

// rewordedError is an error with another text.
type rewordedError struct {
	text string
	error
}

func (e *rewordedError) Error() string { return e.text }
func (e *rewordedError) Unwrap() error { return e.error }

// checkpointDocument is a checkpoint in JSON and YAML.
type checkpointDocument struct {
	Key      string              `json:"key"`
	Identity checkpoint.Identity `json:"identity"`
	// ResourceVersions are by namespace. An empty or missing one means that the snapshot is incomplete.
	ResourceVersions map[string]string `json:"resourceVersions,omitempty"`
	Partial          bool              `json:"partial,omitempty"`
	Rewound          bool              `json:"rewound,omitempty"`
	Unclean          bool              `json:"unclean,omitempty"`
	Committed        metav1.Time       `json:"committed"`
	Objects          []objectDocument  `json:"objects"`
}

type objectDocument struct {
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"` // empty: never acked
}

func showCheckpoints(
	ctx context.Context, streams genericiooptions.IOStreams, s *file.Store, keys []string, output string,
) error {
	out := documents{w: streams.Out, yaml: output == "yaml"}
	columns := []string{"KEY", "NAMESPACES", "RESOURCE VERSION", "OBJECTS", "COMMITTED", "CLUSTER", "SELECTORS"}
	if output != "wide" {
		columns = columns[:5]
	}
	rows := newTable(streams.Out, columns)
	for _, key := range keys {
		c, err := s.Load(ctx, key)
		if err != nil {
			return err
		}
		switch output {
		case "name":
			err = screen.WriteLine(streams.Out, screen.Text{Text: key})
		case "json", "yaml":
			err = out.print(documentOf(key, c))
		default:
			err = addRow(rows, cellsOf(key, c)...)
		}
		if err != nil {
			return err
		}
	}
	if len(keys) == 0 {
		printMessage(streams.ErrOut, "the file has no checkpoints")
	}
	return rows.Flush()
}

func documentOf(key string, c *checkpoint.Checkpoint) checkpointDocument {
	d := checkpointDocument{
		Key: key, Identity: c.Identity, ResourceVersions: c.Position.ResourceVersions,
		Partial: c.Position.Partial, Rewound: c.Position.Rewound, Unclean: c.Position.Unclean,
		Committed: metav1.NewTime(c.Committed), Objects: []objectDocument{},
	}
	for _, o := range c.Position.Objects {
		d.Objects = append(d.Objects, objectDocument{o.Namespace, o.Name, string(o.UID), o.ResourceVersion})
	}
	slices.SortFunc(d.Objects, func(a, b objectDocument) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return d
}

func cellsOf(key string, c *checkpoint.Checkpoint) []string {
	namespaces := c.Identity.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	var at []string
	for _, n := range namespaces {
		rv, scopeMoved := c.Position.At(n)
		switch {
		case scopeMoved:
			rv = "<by namespace>"
		case rv == "":
			rv = "<snapshot>"
		}
		at = append(at, rv)
	}
	selectors := slices.DeleteFunc([]string{c.Identity.LabelSelector, c.Identity.FieldSelector},
		func(s string) bool { return s == "" })
	return []string{
		key, orElse(strings.Join(c.Identity.Namespaces, ","), "<all>"), strings.Join(at, ","),
		strconv.Itoa(len(c.Position.Objects)), duration.HumanDuration(time.Since(c.Committed)) + " ago",
		c.Identity.Cluster.String(), orElse(strings.Join(selectors, " "), "<none>"),
	}
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
