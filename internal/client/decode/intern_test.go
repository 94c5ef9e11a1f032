package decode_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
)

// specOf returns an object with a spec, and white space after it, so that short texts are compared as words.
func specOf(spec string) []byte {
	return []byte(`{"apiVersion":"v1","kind":"Thing","spec":` + spec + `}` + strings.Repeat(" ", 32))
}

// textAllocations returns how many allocations d makes for an object, without its maps and lists.
func textAllocations(t *testing.T, d *decode.Decoder, data []byte) int {
	t.Helper()
	o, err := decode.New(false).Object(data)
	if err != nil {
		t.Fatal(err)
	}
	least := mallocs(func() { runtime.DeepCopyJSON(o) })
	return mallocs(func() { _, err = d.Object(data) }) - least
}

// Maps do not grow again either.
func TestRecurringTextsAreAllocatedOnce(t *testing.T) {
	type test struct {
		why, spec string
		allocates bool
	}
	tests := []test{
		{"a text that is too long for the table", `{"` + strings.Repeat("k", 65) + `":true}`, true},
		{"texts with escapes, and with runes", `{"a\"b":"c\nd","é":"ü"}`, false},
		{"numbers", `[1,-2,1.5,1e3,123456789012345678]`, false},
		{"long texts that begin alike", `["registry.example.com/shop/web","registry.example.com/shop/api",` +
			`"registry.example.com/shop/job"]`, false},
		{"long texts that begin and end alike",
			`["registry.example.com/one/service/web:1.42.0","registry.example.com/two/service/web:1.42.0"]`, false},
		{"long texts that differ only in length", `["` + strings.Repeat("x", 40) + `","` +
			strings.Repeat("x", 41) + `","` + strings.Repeat("x", 42) + `"]`, false},
		{"a map with more than 8 keys", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,` +
			`"l":1,"m":1,"n":1,"o":1,"p":1,"q":1,"r":1,"s":1}`, false},
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."
	for n := 1; n <= len(letters); n++ {
		tests = append(tests,
			test{fmt.Sprintf("texts of %d bytes", n), `{"` + letters[:n] + `":"` + letters[len(letters)-n:] +
				`"}`, false})
	}
	for _, tt := range tests {
		d, data := decode.New(false), specOf(tt.spec)
		for range 3 {
			textAllocations(t, d, data)
		}
		if n := textAllocations(t, d, data); (n > 0) != tt.allocates {
			t.Errorf("%s: %d allocations besides the maps, want some: %v", tt.why, n, tt.allocates)
		}
	}
}

// An object is compared with what came last under the same keys. That may only begin alike.
func TestExpectedTextsAreComparedToTheirEnds(t *testing.T) {
	for _, tt := range []struct{ why, usual, next string }{
		{"a longer number", `{"a":12,"b":0}`, `{"a":123,"b":0}`},
		{"a number with a point", `{"a":12,"b":0}`, `{"a":12.5,"b":0}`},
		{"a number with an exponent", `{"a":12,"b":0}`, `{"a":12e1,"b":0}`},
		{"a number before white space", `{"a":12,"b":0}`, "{\"a\":12 ,\"b\":0}"},
		{"a number as a string", `{"a":12,"b":0}`, `{"a":"12","b":0}`},
		{"a string as a number", `{"a":"12","b":0}`, `{"a":12,"b":0}`},
		{"a longer string", `{"a":"bcd"}`, `{"a":"bcde"}`},
		{"an escaped quote", `{"a":"bcd"}`, `{"a":"bcd\",e"}`},
		{"a longer key", `{"key":{"a":1}}`, `{"keys":{"a":1}}`},
		{"a string that an earlier key was", `{"a":"b","b":"a"}`, `{"b":"b","a":"a"}`},
		{"white space before the colon", `{"a":1,"b":2}`, `{"a" :1,"b" :2}`},
		{"a map instead of a string", `{"a":"b"}`, `{"a":{"b":"c"}}`},
		{"a string instead of a map", `{"a":{"b":"c"}}`, `{"a":"b"}`},
		{"other keys", `{"a":1,"b":2,"c":3}`, `{"c":1,"a":2,"d":4}`},
		{"a missing key", `{"a":1,"b":2,"c":3}`, `{"a":1,"c":3}`},
		{"a key that comes twice", `{"a":1,"b":2}`, `{"a":1,"b":2,"a":3}`},
		{"a key with an escape", `{"a\n":1,"b":2}`, `{"a\\n":1,"b":2}`},
		{"no colon", `{"a":1}`, `{"a","b":1}`},
		{"a number as a key", `[12,{"a":12}]`, `[12,{12:12}]`},
		{"texts of 8, 16, 24 and 25 bytes",
			`["12345678",{"1234567812345678":"123456781234567812345678"},"1234567812345678123456789"]`,
			`["12345679",{"1234567812345679":"123456781234567812345679"},"1234567812345678123456780"]`},
	} {
		c := newComparison()
		for range 8 { // until all is expected
			compare(t, false, tt.why, specOf(tt.usual), c.object)
		}
		compare(t, true, tt.why, specOf(tt.next), c.object)
		compare(t, false, tt.why, specOf(tt.usual), c.object)
	}
}

// What all objects have now replaces what they had before.
func TestRareTextsDoNotReplaceCommonOnes(t *testing.T) {
	d := decode.New(false)
	times := func(n int, spec string) {
		for range n {
			if _, err := d.Object(specOf(spec)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// More texts than there are places, each often enough to get one.
	for i := range 10_000 {
		times(20, fmt.Sprintf(`["old-%d"]`, i))
	}
	times(20, `["new"]`)
	if n := textAllocations(t, d, specOf(`["new"]`)); n > 0 {
		t.Errorf("a frequent text has not replaced texts that are gone: %d allocations", n)
	}
	for i := range 100_000 {
		times(1, fmt.Sprintf(`["once-%d"]`, i))
	}
	if n := textAllocations(t, d, specOf(`["new"]`)); n > 0 {
		t.Errorf("replaced by texts that came once each: %d allocations", n)
	}
	for i := range 10_000 {
		times(2, fmt.Sprintf(`["twice-%d"]`, i))
	}
	if n := textAllocations(t, d, specOf(`["new"]`)); n > 0 {
		t.Errorf("replaced by texts that came twice each: %d allocations", n)
	}
}

// A text and the same text followed by zero bytes have the same words. Two of these texts share a place in the table.
func TestTrailingZerosMakeTextsDiffer(t *testing.T) {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	d, zeros := decode.New(false), 7
	for _, x := range letters {
		for _, y := range letters {
			text := "a" + string(x) + string(y)
			with, without := specOf(`["`+text+strings.Repeat(`\u0000`, zeros)+`"]`), specOf(`["`+text+`"]`)
			for n := range 20 {
				data, want := with, text+strings.Repeat("\x00", zeros)
				if n == 19 {
					data, want = without, text
				}
				o, err := d.Object(data)
				if err != nil {
					t.Fatal(err)
				}
				if got := o["spec"].([]any)[0]; got != want {
					t.Fatalf("%s: got %q, want %q", data, got, want)
				}
			}
		}
	}
}
