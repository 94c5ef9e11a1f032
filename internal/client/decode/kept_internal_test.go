package decode

import (
	"strings"
	"testing"
)

// A Decoder is kept for the next list or event, but not the data of the last one.
func TestDecoderForgetsTheData(t *testing.T) {
	const object = `{"kind":"A","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u",` +
		`"resourceVersion":"7"}}`
	d := New(false)
	list := `{"kind":"AList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[` + object + `]}`
	listed := func(raw bool) bool { return d.Lister(raw).Decode([]byte(list)) == nil }
	declined := func(event string) bool {
		v, _ := d.Metadata([]byte(event), ToEnd)
		return v == nil
	}
	nameless := strings.Replace(object, "name", "other", 1)
	for what, use := range map[string]func() bool{
		"a raw list":       func() bool { return listed(true) },
		"a list":           func() bool { return listed(false) },
		"a bookmark":       func() bool { return declined(`{"type":"BOOKMARK","object":` + object + "}") },
		"half an event":    func() bool { return declined(`{"type":"ADDED","object":` + object) },
		"a nameless event": func() bool { return declined(`{"type":"ADDED","object":` + nameless + "}") },
	} {
		if !use() {
			t.Errorf("%s: not used as meant", what)
		}
		if d.parser.in.data != nil || d.view.scan.data != nil {
			t.Errorf("%s: the data is kept", what)
		}
	}
}
