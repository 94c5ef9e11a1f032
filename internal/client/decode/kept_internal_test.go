package decode

import (
	"strings"
	"testing"
)

// A Decoder is kept for the next list or event, but not the data of the last one.
func TestDecoderForgetsTheData(t *testing.T) {
	const object = `{"kind":"A","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"}}`
	d := New(false)
	list := `{"kind":"AList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[` + object + `]}`
	for what, use := range map[string]func() bool{
		"a raw list": func() bool { return d.Lister(true).Decode([]byte(list)) == nil },
		"a list":     func() bool { return d.Lister(false).Decode([]byte(list)) == nil },
		"a bookmark": func() bool {
			v, _ := d.Metadata([]byte(`{"type":"BOOKMARK","object":`+object+"}"), true)
			return v == nil
		},
		"half an event": func() bool { v, _ := d.Metadata([]byte(`{"type":"ADDED","object":`+object), true); return v == nil },
		"a nameless event": func() bool {
			v, _ := d.Metadata([]byte(`{"type":"ADDED","object":`+strings.Replace(object, "name", "other", 1)+"}"), true)
			return v == nil
		},
	} {
		if !use() {
			t.Errorf("%s: not used as meant", what)
		}
		if d.data != nil || d.view.data != nil {
			t.Errorf("%s: the data is kept", what)
		}
	}
}
