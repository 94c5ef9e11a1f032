package tables_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/tables"
)

// decoded returns the object in text, or nil.
func decoded(text []byte) (m map[string]any) {
	_ = utiljson.Unmarshal(text, &m)
	return m
}

func isTable(m map[string]any) bool {
	group, _ := m["apiVersion"].(string)
	return m["kind"] == "Table" && strings.HasPrefix(group, "meta.k8s.io/")
}

// metadataOf returns the metadata of the object of a row, or empty metadata.
func metadataOf(row any) map[string]any {
	r, _ := row.(map[string]any)
	o, _ := r["object"].(map[string]any)
	if m, ok := o["metadata"].(map[string]any); ok {
		return m
	}
	return map[string]any{}
}

// FuzzWatch compares the frames that a watch becomes with those that it should become, by their metadata.
func FuzzWatch(f *testing.F) {
	f.Add([]byte(frame("ADDED", table(columns, rows(row("a", `["a"]`), row("b", `["b"]`))))+
		frame("BOOKMARK", table(rows()))), true)
	f.Add([]byte(frame("ERROR", `{"kind":"Status"}`)+frame("ADDED", `{"kind":"Pod"}`)+"garbage"), false)
	f.Add([]byte(`{"type":"DELETED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1",`+
		`"rows":[null,5,{"object":{"metadata":`), false)
	f.Fuzz(func(t *testing.T, in []byte, slow bool) {
		from := io.Reader(bytes.NewReader(in))
		if slow {
			from = iotest.OneByteReader(from)
		}
		body, tbl := answer(t, watchURL, from)
		out, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		key := tables.Key(tbl)
		before, after := json.NewDecoder(bytes.NewReader(in)), json.NewDecoder(bytes.NewReader(out))
		next := func() map[string]any {
			var text json.RawMessage
			if err := after.Decode(&text); err != nil {
				t.Fatalf("a frame is missing: %v", err)
			}
			return decoded(text)
		}
		end := int64(0) // of the last valid frame
		for ; ; end = before.InputOffset() {
			var text json.RawMessage
			if before.Decode(&text) != nil {
				break // the rest passes
			}
			frame := decoded(text)
			object, _ := frame["object"].(map[string]any)
			rows, _ := object["rows"].([]any)
			kind := frame["type"]
			changed := kind == "ADDED" || kind == "MODIFIED" || kind == "DELETED"
			if frame == nil || !isTable(object) || kind != "BOOKMARK" && !(changed && len(rows) > 0) {
				var same json.RawMessage
				if err := after.Decode(&same); err != nil || !bytes.Equal(text, same) {
					t.Fatalf("%s became %s: %v", text, same, err)
				}
				continue
			}
			if kind == "BOOKMARK" {
				want := map[string]any{}
				if len(rows) > 0 {
					want = metadataOf(rows[0])
				}
				if own, ok := object["metadata"].(map[string]any); ok && len(want) == 0 {
					want = own
				}
				got := next()["object"].(map[string]any)
				if diff := cmp.Diff(want, got["metadata"]); diff != "" && len(want) > 0 || got[key] != nil {
					t.Fatalf("a bookmark changes (-want +got):\n%s", diff)
				}
				continue
			}
			for _, row := range rows {
				got := next()
				o := got["object"].(map[string]any)
				if diff := cmp.Diff(metadataOf(row), o["metadata"]); diff != "" || got["type"] != kind {
					t.Fatalf("a row becomes %v (-want +got):\n%s", got, diff)
				}
			}
		}
		rest, got := bytes.TrimSpace(in[end:]), bytes.TrimSpace(out[after.InputOffset():])
		if !bytes.Equal(rest, got) {
			t.Fatalf("the rest %q becomes %q", rest, got)
		}
	})
}

// FuzzList compares the list that an answer becomes with the one that it should become.
func FuzzList(f *testing.F) {
	f.Add([]byte(table(`"metadata":{"resourceVersion":"9"}`, columns,
		rows(row("a", `["a"]`), row("b", `["b"]`)))), true)
	f.Add([]byte(`{"kind":"PodList","apiVersion":"v1","items":[]}`), false)
	f.Add([]byte("{"+head+`,"rows":null}`), false)
	f.Add([]byte("{"+head+`,"rows":[{"object":5}],"x":}`), false)
	f.Fuzz(func(t *testing.T, in []byte, slow bool) {
		from := io.Reader(bytes.NewReader(in))
		if slow {
			from = iotest.OneByteReader(from)
		}
		body, _ := answer(t, listURL, from)
		out, err := io.ReadAll(body)
		list := decoded(in)
		switch {
		case err != nil:
			if _, ok := list["rows"].([]any); ok && json.Valid(in) && bytes.Count(in, []byte("rows")) == 1 &&
				!bytes.Contains(in, []byte(`\u`)) && bytes.Count(in, []byte("kind")) == 1 &&
				bytes.Count(in, []byte("apiVersion")) == 1 {
				t.Fatalf("a valid Table is refused: %v", err)
			}
			return
		case json.Valid(in) != json.Valid(out):
			t.Fatalf("valid: %v becomes %v\n%s", json.Valid(in), json.Valid(out), out)
		case bytes.Equal(in, out) || !json.Valid(in):
			return
		}
		rows, _ := list["rows"].([]any)
		got := decoded(out)
		items, ok := got["items"].([]any)
		if !ok || len(items) != len(rows) {
			t.Fatalf("%d rows become %s", len(rows), out)
		}
		for i, item := range items {
			if diff := cmp.Diff(metadataOf(rows[i]), item.(map[string]any)["metadata"]); diff != "" {
				t.Fatalf("row %d (-want +got):\n%s", i, diff)
			}
		}
		if diff := cmp.Diff(list["metadata"], got["metadata"]); diff != "" {
			t.Fatalf("metadata (-want +got):\n%s", diff)
		}
	})
}
