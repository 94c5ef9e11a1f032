package tables_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/tables"
	"github.com/gvrwatch/gvrwatch/stream"
)

func TestRow(t *testing.T) {
	_, tbl := tables.Wrap(&rest.Config{}, false)
	two := `[{"name":"Name","type":"string","format":"name","priority":0},{"name":"N","type":"integer","priority":1}]`
	columns := []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name"}, {Name: "N", Type: "integer", Priority: 1}}
	long := strings.Repeat("x", 64<<10)
	for _, tt := range []struct {
		json string // KEY stands for the key
		want []any  // nil if there is no row
		why  string
	}{
		{`{"metadata":{},"KEY":{"columns":` + two + `,"cells":["a",5]}}`, []any{"a", int64(5)},
			"integers stay integers"},
		{`{"KEY":{"columns":` + two + `,"cells":["a"]}}`, []any{"a", nil}, "a missing cell"},
		{`{"KEY":{"columns":` + two + `,"cells":[1.5,null,3]}}`, []any{1.5, nil}, "too many cells"},
		{`{"KEY":{"columns":` + two + `}}`, []any{nil, nil}, "no cells"},
		{`{"KEY":{"columns":` + two + `,"cells":5}}`, []any{nil, nil}, "cells that are no list"},
		{`{"KEY":{"columns":` + two + `,"cells":[1e400,[{"a":1}]]}}`,
			[]any{"1e400", []any{map[string]any{"a": int64(1)}}},
			"a number out of range, and a nested value"},
		{`{"KEY":{"columns":` + two + `,"cells":["` + long + `",{}]}}`, []any{`"` + long + `"`, map[string]any{}},
			"too long"},
		{`{"KEY":{"columns":` + two + ",\"cells\":[\"\xff\",true]}}", []any{"\uFFFD", true}, "invalid UTF-8"},
		{`{"KEY":{"columns":[],"cells":[]}}`, []any{}, "no columns"},
		{`{"KEY":{"columns":null,"cells":[]}}`, nil, "null columns"},
		{`{"KEY":{"columns":[5],"cells":[]}}`, nil, "invalid columns"},
		{`{"KEY":5}`, nil, "no row"},
		{`{"metadata":{"name":"KEY"}}`, nil, "the key in the metadata"},
		{`{"KEY":`, nil, "invalid JSON"},
		{`{"table":{"columns":` + two + `,"cells":["a",5]},"":{"columns":` + two + `}}`, nil, "an object of a tenant"},
		{``, nil, "no object"},
	} {
		ev := stream.Event{JSON: []byte(strings.ReplaceAll(tt.json, "KEY", tables.Key(tbl)))}
		for range 2 { // the second time the columns are known
			got, cells, ok := tbl.Row(ev)
			if diff := cmp.Diff(tt.want, cells); diff != "" || ok != (tt.want != nil) {
				t.Errorf("%s: %v (-want +got):\n%.2000s", tt.why, ok, diff)
			}
			if diff := cmp.Diff(columns, got); len(tt.want) > 0 && diff != "" {
				t.Errorf("%s: columns (-want +got):\n%s", tt.why, diff)
			}
		}
		for _, other := range []*tables.Tables{nil, new(tables.Tables)} {
			if _, _, ok := other.Row(ev); ok {
				t.Errorf("%s: Tables without a key return a row", tt.why)
			}
		}
	}
}

func TestText(t *testing.T) {
	for _, tt := range []struct {
		cell any
		want string
	}{
		{nil, ""}, {"", ""}, {"Running", "Running"}, {int64(5), "5"}, {1e21, "1e+21"}, {true, "true"},
		{"first\nsecond", "first..."}, {"a\rb", "a..."}, {"a\fb", "a..."}, {"\n", "..."}, {"a\x1b[2Jb", "a\x1b[2Jb"},
		{[]any{"a", int64(1)}, "[a 1]"}, {map[string]any{"b": nil, "a": []any{"x\ny"}}, "map[a:[x..."},
	} {
		if got := tables.Text(tt.cell); got != tt.want {
			t.Errorf("Text(%#v) = %q, want %q", tt.cell, got, tt.want)
		}
	}
}

// TestSplit: an object is what the server sent, its row is by itself, and Join puts them together again.
func TestSplit(t *testing.T) {
	_, tbl := tables.Wrap(&rest.Config{}, true)
	const object, row = `{"metadata":{"name":"a"},"spec":{"x":["}"]}}`, `{"columns":[],"cells":["a"]}`
	joined := `{"metadata":{"name":"a"},"spec":{"x":["}"]},"` + tables.Key(tbl) + `":` + row + `}`
	for in, want := range map[string][2]string{joined: {object, row}, object: {object, ""}, "": {"", ""}} {
		ev := stream.Event{JSON: []byte(in)}
		gotObject, gotRow := tbl.Split(ev)
		if got := [2]string{string(gotObject), string(gotRow)}; got != want || string(ev.JSON) != in {
			t.Errorf("of %s: %s, want %s; the event is %s", in, got, want, ev.JSON)
		}
		if got := string(tbl.Join(gotObject, gotRow)); got != in {
			t.Errorf("%s becomes %s", in, got)
		}
		if got, none := (*tables.Tables)(nil).Split(ev); string(got) != in || none != nil {
			t.Errorf("without Tables %s becomes %s and %s", in, got, none)
		}
	}
}
