package main

import (
	"bytes"
	"encoding/json"
	"io"

	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

// documents writes values as lines of JSON, or as YAML documents.
type documents struct {
	w    io.Writer
	yaml bool
	next bool // not the first one
}

func (d *documents) print(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if d.yaml {
		if b, err = yamlOf(b); err != nil {
			return err
		}
		if d.next {
			b = append([]byte("---\n"), b...)
		}
		d.next = true
	}
	_, err = d.w.Write(b)
	return err
}

// yamlOf converts JSON to YAML in which the characters that output escapes occur only between double quotes, where YAML
// has the same escapes as JSON. (The encoder writes those above U+FFFF itself, as \U000e0001.)
func yamlOf(document []byte) ([]byte, error) {
	var v any
	if err := utiljson.Unmarshal(document, &v); err != nil { // it reads whole numbers as int64
		return nil, err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	err := e.Encode(quote(v))
	return b.Bytes(), err
}

// quote returns v with each string as quoted that output changes. It does so with "<<" and "=", too, which the encoder
// would write without quotes: as a merge, and as what YAML 1.1 calls the default value, which PyYAML can't read.
func quote(v any) any {
	switch v := v.(type) {
	case string:
		if string(screen.AppendEscaped(nil, v, "\n")) != v || v == "<<" || v == "=" {
			return quoted(v)
		}
	case []any:
		for i := range v {
			v[i] = quote(v[i])
		}
	case map[string]any:
		m := make(map[any]any, len(v))
		for key, value := range v {
			m[quote(key)] = quote(value)
		}
		return m
	}
	return v
}

// quoted is a string that the encoder writes between double quotes.
type quoted string

func (q quoted) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: string(q)}, nil
}
