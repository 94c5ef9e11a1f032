package tables

import (
	"bytes"
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// maxColumns is how long the definitions of columns may be. They are sent once, and each object gets them.
const maxColumns = 256 << 10

// objects makes objects of rows.
type objects struct {
	key     string
	full    bool   // objects keep all fields
	columns []byte // the last definitions, as JSON; nil if there are none
}

// row is a row of a Table. Its fields are JSON.
type row struct {
	Cells  json.RawMessage `json:"cells"`
	Object rowObject       `json:"object"`
}

// rowObject is the object of a row, of which only metadata is needed unless objects are whole.
type rowObject struct {
	Metadata json.RawMessage
	whole    json.RawMessage
}

// UnmarshalJSON reads metadata and keeps the whole.
func (o *rowObject) UnmarshalJSON(text []byte) error {
	var fields struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	err := utiljson.Unmarshal(text, &fields)
	o.Metadata, o.whole = fields.Metadata, bytes.Clone(text)
	return err
}

// define takes the columnDefinitions of a Table. Of a watch only the first Table has some.
func (o *objects) define(text json.RawMessage) {
	var columns []metav1.TableColumnDefinition
	if len(text) > maxColumns || utiljson.Unmarshal(text, &columns) != nil && len(text) > 0 {
		o.columns = nil
		return
	}
	if len(columns) == 0 {
		return
	}
	for i := range columns {
		columns[i].Description = "" // long, and for no output
	}
	o.columns, _ = json.Marshal(columns) // texts and numbers
}

// object reads a row from JSON. An object without metadata gets those of another. If there are none, it has no name,
// and no Stream accepts it: the row must not be lost silently.
func (o *objects) object(text, metadata json.RawMessage) (r row) {
	if utiljson.Unmarshal(text, &r) != nil {
		r = row{}
	}
	for _, other := range []json.RawMessage{metadata, json.RawMessage("{}")} {
		if !bytes.HasPrefix(r.Object.Metadata, []byte("{")) {
			r.Object = rowObject{Metadata: other}
		}
	}
	return r
}

// write appends the object of a row, in one line.
func (o *objects) write(out *bytes.Buffer, r row) {
	if o.full && r.Object.whole != nil {
		_ = json.Compact(out, r.Object.whole) // valid: it was decoded
		out.Truncate(out.Len() - 1)           // the brace
	} else {
		out.WriteString(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":`)
		_ = json.Compact(out, r.Object.Metadata)
	}
	if o.columns != nil && bytes.HasPrefix(r.Cells, []byte("[")) {
		out.WriteString(`,"` + o.key + `":{"columns":`)
		out.Write(o.columns)
		out.WriteString(`,"cells":`)
		_ = json.Compact(out, r.Cells)
		out.WriteByte('}')
	}
	out.WriteByte('}')
}

// isTable reports whether an object is a Table. The group matters: a tenant's kind may have that name.
func isTable(kind, apiVersion string) bool {
	return kind == "Table" && strings.HasPrefix(apiVersion, metav1.GroupName+"/")
}
