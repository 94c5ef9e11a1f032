package tables

import (
	"bytes"
	"encoding/json"
	"io"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
)

// frames converts a watch.
type frames struct {
	source  *source
	objects objects
	kind    watch.EventType // of the rows
	rows    *json.Decoder   // the rows of the last frame that are not converted yet; nil if there are none
}

// event is an event of a watch. It is a Table if its Object has that kind.
type event struct {
	Type   watch.EventType `json:"type"`
	Object struct {
		Kind              string          `json:"kind"`
		APIVersion        string          `json:"apiVersion"`
		Metadata          json.RawMessage `json:"metadata"`
		ColumnDefinitions json.RawMessage `json:"columnDefinitions"`
		Rows              json.RawMessage `json:"rows"`
	} `json:"object"`
}

// step converts the next row, or reads the next frame. Each row becomes a frame, and waits for its turn as JSON: with
// its columns it may be far larger.
func (f *frames) step(out *bytes.Buffer) (rest io.Reader, err error) {
	var text json.RawMessage
	if f.rows != nil {
		if f.rows.Decode(&text) == nil {
			f.frame(out, f.kind, f.objects.object(text, nil))
		} else { // the bracket at the end
			f.rows = nil
		}
		return nil, nil
	}
	if f.source.Decode(&text) != nil {
		return f.source.rest(), nil // no frame, or the end
	}
	if len(text) > maxIdle {
		f.source.shrink()
	}
	if !f.begin(out, text) {
		out.Write(text)
		out.WriteByte('\n')
	}
	return nil, nil
}

// begin begins to convert an event, and converts a bookmark. It returns false if the event must pass unchanged: it is
// no Table, or has no row.
func (f *frames) begin(out *bytes.Buffer, text []byte) bool {
	var ev event
	if utiljson.Unmarshal(text, &ev) != nil || !isTable(ev.Object.Kind, ev.Object.APIVersion) {
		return false
	}
	f.objects.define(ev.Object.ColumnDefinitions)
	rows := json.NewDecoder(bytes.NewReader(ev.Object.Rows))
	bracket, _ := rows.Token()
	some := bracket == json.Delim('[') && rows.More()
	switch ev.Type {
	case watch.Bookmark:
		// A kube-apiserver sends a row of an object that has only metadata, with the cells of an empty object.
		var first json.RawMessage
		if some {
			_ = rows.Decode(&first) // valid: it was decoded as a part of the event
		}
		bookmark := f.objects.object(first, ev.Object.Metadata)
		bookmark.Cells = nil
		f.frame(out, ev.Type, bookmark)
		return true
	case watch.Added, watch.Modified, watch.Deleted:
		if some {
			f.kind, f.rows = ev.Type, rows
		}
		return some
	}
	return false
}

func (f *frames) frame(out *bytes.Buffer, kind watch.EventType, r row) {
	out.WriteString(`{"type":"` + string(kind) + `","object":`)
	f.objects.write(out, r)
	out.WriteString("}\n")
}
