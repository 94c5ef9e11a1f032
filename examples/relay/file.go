package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	yamlnode "go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
)

// readFile sets the fields of cfg that a YAML file has. Its error names the line and the field.
func readFile(name string, cfg *relay.Config) error {
	data, err := os.ReadFile(name)
	if err == nil {
		err = readYAML(data, cfg)
	}
	if err != nil {
		return fmt.Errorf("invalid --config %s: %w", name, err)
	}
	return nil
}

func readYAML(data []byte, cfg *relay.Config) error {
	if err := yaml.UnmarshalStrict(data, cfg); err != nil {
		return explain(data, err)
	}
	d := yamlnode.NewDecoder(bytes.NewReader(data))
	var first, second yamlnode.Node
	if d.Decode(&first) == nil && !errors.Is(d.Decode(&second), io.EOF) {
		return fmt.Errorf("line %d: a second document: must be one", second.Line)
	}
	return nil
}

// explain returns what is wrong in the file of which a decoder says err.
func explain(data []byte, err error) error {
	var document yamlnode.Node
	if yamlnode.Unmarshal(data, &document) != nil {
		return explainSyntax(data, err)
	}
	for _, content := range document.Content {
		if found := mistake(content, reflect.TypeFor[relay.Config](), ""); found != nil {
			return found
		}
	}
	return err
}

var (
	tab      = regexp.MustCompile(`(?m)^ *\t`)
	wildcard = regexp.MustCompile(`(?m)(^|[:,\[-])[ \t]*\*`) // YAML takes it for an alias
)

func explainSyntax(data []byte, err error) error {
	for found, why := range map[*regexp.Regexp]string{
		tab:      "invalid tab: must be indented with spaces",
		wildcard: `invalid text that begins with *: must be in quotes, such as "*"`,
	} {
		if at := found.FindIndex(data); at != nil {
			return fmt.Errorf("line %d: %s", 1+bytes.Count(data[:at[1]], []byte("\n")), why)
		}
	}
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: yaml: ")
	return fmt.Errorf("%s: the fields of one level must begin in the same column, and text with : or # be in quotes",
		text)
}

// mistake returns an error if a node of the file can't be a value of a type, or nil. path is its field.
func mistake(n *yamlnode.Node, t reflect.Type, path string) error {
	invalid := func(must string) error {
		return fmt.Errorf("line %d: invalid %s %q: must be %s", n.Line, cmp.Or(path, "file"), n.Value, must)
	}
	switch {
	case n.Kind == yamlnode.AliasNode: // its anchor is checked
		return nil
	case t == reflect.TypeFor[metav1.Duration]():
		if _, err := time.ParseDuration(n.Value); err != nil {
			return invalid("a duration such as 24h")
		}
	case n.Tag == "!!null": // sets nothing
		return nil
	case t.Kind() == reflect.Struct:
		if n.Kind != yamlnode.MappingNode {
			return invalid("fields and their values, such as " + fieldsOf(t)[0] + ": ...")
		}
		return mistakeInFields(n, t, path)
	case t.Kind() == reflect.Slice:
		if n.Kind == yamlnode.ScalarNode {
			return invalid("a list, such as [" + n.Value + "]")
		}
		if n.Kind != yamlnode.SequenceNode {
			return invalid("a list: each item begins with -")
		}
		for i, item := range n.Content {
			if err := mistake(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case n.Kind != yamlnode.ScalarNode:
		return invalid("one value")
	case t.Kind() == reflect.Bool && n.Decode(new(bool)) != nil:
		return invalid("true or false")
	case t.Kind() != reflect.Bool && t.Kind() != reflect.String &&
		(n.Tag != "!!int" || n.Decode(reflect.New(t).Interface()) != nil):
		return invalid("a whole number")
	}
	return nil
}

func mistakeInFields(n *yamlnode.Node, t reflect.Type, path string) error {
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			continue
		}
		name := strings.TrimPrefix(path+"."+key.Value, ".")
		if line := lines[key.Value]; line > 0 {
			return fmt.Errorf("line %d: invalid %s: must be given once, and is in line %d", key.Line, name, line)
		}
		lines[key.Value] = key.Line
		field, known := fieldOf(t, key.Value)
		if !known {
			err := fmt.Errorf("line %d: unknown field %q: must be one of %s", key.Line, name,
				strings.Join(fieldsOf(t), ", "))
			if places := placesOf(reflect.TypeFor[relay.Config](), key.Value, ""); len(places) > 0 {
				err = fmt.Errorf("%w; is the indentation of %s meant?", err, strings.Join(places, " or "))
			}
			return err
		}
		if err := mistake(value, field, name); err != nil {
			return err
		}
	}
	return nil
}

// fieldOf returns the type of the field that encoding/json sets for a name.
func fieldOf(t reflect.Type, name string) (reflect.Type, bool) {
	for _, f := range reflect.VisibleFields(t) {
		if strings.EqualFold(nameOf(f), name) {
			return f.Type, true
		}
	}
	return nil, false
}

func fieldsOf(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		names = append(names, nameOf(f))
	}
	return names
}

// placesOf returns the paths of the fields below a type that have a name.
func placesOf(t reflect.Type, name, path string) (places []string) {
	if t.Kind() == reflect.Slice {
		t, path = t.Elem(), path+"[]"
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[metav1.Duration]() {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		below := strings.TrimPrefix(path+"."+nameOf(f), ".")
		if nameOf(f) == name {
			places = append(places, below)
		}
		places = slices.Concat(places, placesOf(f.Type, name, below))
	}
	return places
}

func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
