package tables

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

// maxCell is how much JSON of a cell is decoded. Decoded, JSON of small objects takes 50 times as much memory.
const maxCell = 64 << 10

// Tables returns the columns and cells of objects that arrived through the config of Wrap. It is safe for concurrent
// use. The zero value knows no objects.
type Tables struct {
	key  string // random, so that a tenant cannot give it to an object
	last atomic.Pointer[parsedColumns]
}

// parsedColumns are the columns of the last row. Most rows have those of the row before.
type parsedColumns struct {
	text    []byte
	columns []metav1.TableColumnDefinition
}

// Wrap returns a copy of cfg whose lists and watches ask for Tables, and the Tables that return their columns. The copy
// is for the client of Streams with stream.Raw. With whole, their objects have all fields. Otherwise they have only
// metadata, and are of the kind PartialObjectMetadata, unless the server makes no Tables of the resource. Requests for
// metadata only, those of single objects, and lists without a limit stay as they are. If cfg is nil, the copy is nil.
func Wrap(cfg *rest.Config, whole bool) (*rest.Config, *Tables) {
	t := &Tables{key: "gvrwatch-" + rand.Text()}
	if cfg == nil {
		return nil, t
	}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next, t.key, whole} })
	return cfg, t
}

// Row returns the columns, without their descriptions, and the cells that the server sent with the object of ev. There
// are as many cells as columns: cells beyond the columns are left out, and missing ones are nil. Integers are int64. A
// cell of more than 64 KiB, or with a number that is out of range, is its JSON, as a string. Row returns false if the
// server sent none, as for inferred events. The columns may be shared: the caller must not change them.
func (t *Tables) Row(ev stream.Event) (columns []metav1.TableColumnDefinition, cells []any, ok bool) {
	if t == nil || t.key == "" || !bytes.Contains(ev.JSON, []byte(t.key)) {
		return nil, nil, false
	}
	var object map[string]json.RawMessage
	var row struct {
		Columns json.RawMessage `json:"columns"`
		Cells   json.RawMessage `json:"cells"`
	}
	if utiljson.Unmarshal(ev.JSON, &object) != nil || utiljson.Unmarshal(object[t.key], &row) != nil {
		return nil, nil, false
	}
	if columns = t.columns(row.Columns); columns == nil {
		return nil, nil, false
	}
	cells = make([]any, len(columns))
	dec := json.NewDecoder(bytes.NewReader(row.Cells))
	_, _ = dec.Token() // the bracket
	for i := range cells {
		var text json.RawMessage
		if !dec.More() || dec.Decode(&text) != nil {
			break
		}
		if len(text) > maxCell || utiljson.Unmarshal(text, &cells[i]) != nil {
			cells[i] = string(text)
		}
	}
	return columns, cells, true
}

// Plain returns ev without what Row reads: its object is the one that the server sent. The events may share memory.
func (t *Tables) Plain(ev stream.Event) stream.Event {
	if t == nil || t.key == "" {
		return ev
	}
	if i := bytes.Index(ev.JSON, []byte(`,"`+t.key+`":`)); i >= 0 { // the last member, see objects.write
		ev.JSON = append(ev.JSON[:i:i], '}')
	}
	return ev
}

func (t *Tables) columns(text []byte) []metav1.TableColumnDefinition {
	if last := t.last.Load(); last != nil && bytes.Equal(last.text, text) {
		return last.columns
	}
	p := &parsedColumns{text: text}
	if utiljson.Unmarshal(text, &p.columns) != nil {
		return nil
	}
	t.last.Store(p)
	return p.columns
}

// Text returns a cell as kubectl prints it (cli-runtime's appendCellValue): nil as nothing, and of several lines the
// first one, with "..." after it. Other control characters stay: the caller has to escape them for a terminal.
func Text(cell any) string {
	if cell == nil {
		return ""
	}
	text := fmt.Sprint(cell)
	if i := strings.IndexAny(text, "\f\n\r"); i >= 0 {
		return text[:i] + "..."
	}
	return text
}
