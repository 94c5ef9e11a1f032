package decode_test

import (
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
)

// What one list or event may take is bounded: a list also if it arrives in pieces, and an item while it arrives.
func TestListsAndEventsAreBounded(t *testing.T) {
	const list = `{"kind":"ThingList","apiVersion":"v1","metadata":{},"items":[`
	dense := `{"x":[` + strings.Repeat(`{"":{}},`, 200_000) + `0]},` // 1.6 MB of JSON, 77 MB of memory
	huge := `{"x":"` + strings.Repeat("x", decode.MaxObject)
	event := `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Thing","x":[`
	for _, tt := range []struct {
		data  string
		piece int // the data arrives in pieces of so many bytes
		want  error
		why   string
	}{
		{list + strings.Repeat(dense, 3), 1 << 20, decode.ErrShort, "less than MaxMemory"},
		{list + strings.Repeat(dense, 4), 8 << 20, decode.ErrDeclined, "more, at once"},
		{list + strings.Repeat(dense, 4), 1 << 20, decode.ErrDeclined, "more, in pieces"},
		{list + huge, 32 << 20, decode.ErrTooLarge, "an item without its end"},
		{list + huge + `"}`, 32 << 20, decode.ErrTooLarge, "an item"},
		{list + strings.Repeat(`{"x":"`+strings.Repeat("x", 9<<20)+`"},`, 2), 4 << 20, decode.ErrShort, "two items"},
	} {
		l, err := decode.New(false).Lister(false), error(nil)
		for n := tt.piece; ; n += tt.piece {
			err = l.Decode([]byte(tt.data[:min(n, len(tt.data))]))
			if n >= len(tt.data) || err != decode.ErrShort {
				break
			}
		}
		if err != tt.want {
			t.Errorf("%s: %v, want %v", tt.why, err, tt.want)
		}
	}
	dec := decode.New(false)
	for range 2 { // each event counts by itself
		for n, want := range map[int]error{400_000: nil, 800_000: decode.ErrDeclined} {
			if _, _, err := dec.Event([]byte(event + strings.Repeat(`{"":{}},`, n) + "0]}}\n")); err != want {
				t.Errorf("an event of %d maps: %v, want %v", 2*n, err, want)
			}
		}
	}
}
