package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

// scanningFormat scans each event to its end, so that nothing is cut by line ends.
type scanningFormat struct{ *jsonFormat }

func (f scanningFormat) newDecoder() decoder { return scanningDecoder{f.jsonFormat.newDecoder()} }

type scanningDecoder struct{ decoder }

func (d scanningDecoder) Metadata(data []byte, _ decode.Extent) (*decode.MetadataView, int) {
	return d.decoder.Metadata(data, decode.ToEnd)
}

// rawEvent is an event of a watch of raw objects.
type rawEvent struct {
	Type, JSON string // the JSON of what was decoded begins with "decoded: "
	Name       string // as Raw says, and the uid and resourceVersion
	Lines      bool   // it was a usual line, so the next one is cut by its line end
}

// rawEvents receives data as a watch of raw objects, in pieces, and returns its events. With scan, none is cut.
func rawEvents(pieces [][]byte, dropManaged, scan bool, filter Filter) (events []rawEvent) {
	stock := dynamic.ConfigFor(&rest.Config{}).NegotiatedSerializer.SupportedMediaTypes()[0]
	var of format = &jsonFormat{dropManaged, stock}
	if scan {
		of = scanningFormat{of.(*jsonFormat)}
	}
	from := newDecoders(of, dropManaged)
	f := newFrames(from, newPipe(of, io.NopCloser(bytes.NewReader(nil))))
	f.raw, f.filter = true, filter
	receive := func() {
		for {
			ev, ok, _ := f.next()
			if !ok {
				return
			}
			e := rawEvent{Type: string(ev.Type), JSON: string(ev.Raw.JSON), Lines: f.lines}
			id := ev.Raw.Version
			e.Name = fmt.Sprint(id.Namespace, "/", id.Name, " ", id.UID, " ", id.ResourceVersion)
			if ev.Raw.JSON == nil {
				e.JSON, e.Name, e.Lines = encoded(ev.Object), "", false
			}
			events = append(events, e)
		}
	}
	for _, piece := range pieces {
		f.pipe.add(piece, nil)
		receive()
	}
	f.pipe.finish(io.EOF)
	receive()
	return events
}

func encoded(o runtime.Object) string {
	text, _ := json.Marshal(o)
	return "decoded: " + strings.TrimSpace(string(text))
}

const (
	rawThing = `{"kind":"Thing","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u",` +
		`"resourceVersion":"7"},"spec":{"a":{"b":1}}}`
	rawName  = "n/a u 7"
	rawAdded = `{"type":"ADDED","object":` + rawThing + `}`
)

// What the lines of a watch are cut into, after a line that has shown that the server sends usual ones.
func TestRawEventsAreCutByLineEnds(t *testing.T) {
	in := func(object string) string { return `{"type":"MODIFIED","object":` + object + `}` }
	with := func(old, new string) string { return strings.Replace(rawThing, old, new, 1) }
	whole := func(lines bool, object string) rawEvent { return rawEvent{"MODIFIED", object, rawName, lines} }
	usual := rawEvent{"ADDED", rawThing, rawName, true}
	endsInObject := strings.TrimSuffix(rawThing, "}") + "\n}"
	kindLast := strings.TrimSuffix(with(`"kind":"Thing",`, ""), "}") + `,"kind":"Thing"}`
	for _, tt := range []struct {
		why, line string // after a usual line, and before another one
		want      []rawEvent
	}{
		{"a usual line", in(rawThing) + "\n", []rawEvent{whole(true, rawThing)}},
		{"CRLF", in(rawThing) + "\r\n", []rawEvent{whole(false, rawThing)}},
		{"no line end", in(rawThing), []rawEvent{whole(false, rawThing)}},
		{"two on a line", in(rawThing) + in(rawThing) + "\n",
			[]rawEvent{whole(false, rawThing), whole(true, rawThing)}},
		{"two on a line, with spaces between", in(rawThing) + " \t " + in(rawThing) + "\n",
			[]rawEvent{whole(false, rawThing), whole(true, rawThing)}},
		{"two on a line, the second with the object first",
			in(rawThing) + `{"object" : ` + rawThing + `,"type":"ADDED"}` + "\n",
			[]rawEvent{whole(false, rawThing), {Type: "ADDED", JSON: decoded(t, rawThing)}}},
		{"a line end within the object, after braces", in(with(`{"b":1}}`, "{\"b\":1}}\n,\"c\":{}")) + "\n",
			[]rawEvent{whole(false, with(`{"b":1}}`, "{\"b\":1}}\n,\"c\":{}"))}},
		{"line ends in a list, after braces", in(with(`{"b":1}`, "[{\"b\":{}}\n,\n{}]")) + "\n",
			[]rawEvent{whole(false, with(`{"b":1}`, "[{\"b\":{}}\n,\n{}]"))}},
		{"a line end between the last braces", in(endsInObject) + "\n", []rawEvent{whole(false, endsInObject)}},
		{"a line end before the last brace", strings.TrimSuffix(in(rawThing), "}") + "\n}\n",
			[]rawEvent{whole(false, rawThing)}},
		{"a space before the last brace", strings.TrimSuffix(in(rawThing), "}") + " }\n",
			[]rawEvent{whole(false, rawThing)}},
		{"a line end in the metadata", in(with(`"uid"`, "\n\"uid\"")) + "\n",
			[]rawEvent{whole(false, with(`"uid"`, "\n\"uid\""))}},
		{"indented", indented(t, in(rawThing)) + "\n", []rawEvent{whole(false, indentedObject(t, in(rawThing)))}},
		{"braces and an escaped line end in a text", in(with(`{"b":1}`, `"}}\n{\"type\":"`)) + "\n",
			[]rawEvent{whole(true, with(`{"b":1}`, `"}}\n{\"type\":"`))}},
		{"object as a value, as in schemas", in(with(`{"b":1}`, `{"type":"object"}`)) + "\n",
			[]rawEvent{whole(true, with(`{"b":1}`, `{"type":"object"}`))}},
		{"object as a key of the object", in(with(`{"b":1}`, `{"object" : {}}`)) + "\n",
			[]rawEvent{whole(true, with(`{"b":1}`, `{"object" : {}}`))}},
		{"the kind after the metadata", in(kindLast) + "\n", []rawEvent{whole(true, kindLast)}},
		{"a bookmark", `{"type":"BOOKMARK","object":` + rawThing + "}\n",
			[]rawEvent{{Type: "BOOKMARK", JSON: decoded(t, rawThing)}}},
		{"a Status", in(with(`"Thing"`, `"Status"`)) + "\n", []rawEvent{{Type: "MODIFIED",
			JSON: `decoded: {"kind":"Status","apiVersion":"v1","metadata":{"resourceVersion":"7"}}`}}},
		{"the object before the type", `{"object":` + rawThing + `,"type":"ADDED"}` + "\n",
			[]rawEvent{{Type: "ADDED", JSON: decoded(t, rawThing)}}},
		{"blank lines", in(rawThing) + "\n\n \n", []rawEvent{whole(true, rawThing)}},
	} {
		data := []byte(rawAdded + "\n" + tt.line + rawAdded + "\n")
		want := append(append([]rawEvent{usual}, tt.want...), usual)
		all := func(*decode.MetadataView) Choice { return DecodeSelected }
		for name, got := range map[string][]rawEvent{
			"at once":  rawEvents([][]byte{data}, false, false, nil),
			"filtered": rawEvents([][]byte{data}, false, false, all),
		} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", tt.why, name, diff)
			}
		}
		for name, got := range map[string][]rawEvent{
			"by byte": rawEvents(bytes.SplitAfter(data, nil), false, false, nil),
			"scanned": rawEvents([][]byte{data}, false, true, nil),
		} {
			if diff := cmp.Diff(withoutLines(want), withoutLines(got)); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", tt.why, name, diff)
			}
		}
	}
}

func withoutLines(events []rawEvent) (all []rawEvent) {
	for _, e := range events {
		e.Lines = false
		all = append(all, e)
	}
	return all
}

func decoded(t *testing.T, object string) string {
	t.Helper()
	u, err := decode.Decode([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	return encoded(u)
}

func indented(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), "", " "); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// indentedObject returns the object of an indented event.
func indentedObject(t *testing.T, event string) string {
	t.Helper()
	_, object, _ := strings.Cut(indented(t, event), `"object": `)
	return strings.TrimRight(strings.TrimSuffix(object, "}"), "\n ")
}

// A server that sends what no API server sends can make a cut wrong. The JSON says so: it is no object, and the events
// around it are delivered.
func TestWrongCutIsInvalidJSON(t *testing.T) {
	object := func(rest string) string { return strings.TrimSuffix(rawThing, "}") + rest }
	for _, tt := range []struct {
		why, line, want string
	}{
		{"a field after the object", `{"type":"ADDED","object":` + rawThing + `,"more":{}}`, rawThing + `,"more":{}`},
		{"a second event on the line, with an escaped key", rawAdded + `{"type":"ADDED","\u006fb\u006aect":{}}`,
			rawThing + `}{"type":"ADDED","\u006fb\u006aect":{}`},
		{"another value on the line", rawAdded + `[]{}{"a":{}}`, rawThing + `}[]{}{"a":{}`},
		{"a list that does not end", `{"type":"ADDED","object":` + object(`,"x":[{}}}`), object(`,"x":[{}}`)},
		{"a brace too many", rawAdded + `}`, rawThing + `}`},
		{"a line end in a text", `{"type":"ADDED","object":` + object(`,"x":"{}}`), object(`,"x":"{}`)},
		{"the rest of the object is lost", strings.TrimSuffix(rawAdded, "}"), strings.TrimSuffix(rawThing, "}")},
	} {
		stream := []byte(rawAdded + "\n" + tt.line + "\n" + rawAdded + "\n")
		usual := rawEvent{"ADDED", rawThing, rawName, true}
		want := []rawEvent{usual, {"ADDED", tt.want, rawName, true}, usual}
		if diff := cmp.Diff(want, rawEvents([][]byte{stream}, false, false, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
		if o, err := decode.Decode([]byte(tt.want)); err == nil || decode.IsWhole([]byte(tt.want)) {
			t.Errorf("%s: it is decoded: %v", tt.why, o)
		}
	}
}

// A server that always sends more than the object gets what client-go makes of its events: nothing is cut before a
// usual line has been seen.
func TestUnusualServersAreScanned(t *testing.T) {
	unusual := `{"type":"ADDED","object":` + rawThing + `,"more":{}}` + "\n"
	whole := rawEvent{Type: "ADDED", JSON: decoded(t, rawThing)}
	got := rawEvents([][]byte{[]byte(strings.Repeat(unusual, 4))}, false, false, nil)
	if diff := cmp.Diff([]rawEvent{whole, whole, whole, whole}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCutEventsAreBounded(t *testing.T) {
	begin, end, _ := strings.Cut(rawAdded, `{"b":1}`)
	line := func(size int) string {
		return begin + `"` + strings.Repeat("x", size-len(begin)-len(end)-2) + `"` + end
	}
	for size, last := range map[int]string{maxFrame: "ADDED", maxFrame + 1: "ERROR"} {
		got := rawEvents([][]byte{[]byte(rawAdded + "\n" + line(size) + "\n" + rawAdded + "\n")}, false, false, nil)
		if got[1].Type != last || len(got) == 3 != (last == "ADDED") {
			t.Errorf("a line of %d bytes: %d events, the second is %s, want %s", size, len(got), got[1].Type, last)
		}
	}
}

func TestCutDropsManagedFields(t *testing.T) {
	in := func(object string) string { return `{"type":"MODIFIED","object":` + object + "}\n" }
	const managed = `"managedFields":[{"manager":"}}"}]`
	for _, tt := range []struct{ why, object, want string }{
		{"last in the metadata", strings.Replace(rawThing, `"7"}`, `"7",`+managed+`}`, 1), rawThing},
		{"first in the metadata", strings.Replace(rawThing, `"name"`, managed+`,"name"`, 1), rawThing},
		{"none", rawThing, rawThing},
	} {
		data := []byte(in(tt.object) + in(tt.object) + in(tt.object))
		e := rawEvent{"MODIFIED", tt.want, rawName, true}
		if diff := cmp.Diff([]rawEvent{e, e, e}, rawEvents([][]byte{data}, true, false, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
}

// TestRandomCutsAreScans: of random events, between all sorts of white space, the cut and the scan deliver the same. Of
// broken ones a cut delivers nothing else that is an object. Sometimes fields follow the object.
func TestRandomCutsAreScans(t *testing.T) {
	const seeds = seedtest.Default(40)
	cuts, wrong := 0, 0
	for seed := range seeds.All(t) {
		r := decodetest.NewRandom(seed)
		var stream []byte
		for range 20 {
			stream = append(stream, randomEvent(r)...)
		}
		for i, data := range [][]byte{stream, r.Mutate(stream), r.Mutate(r.Mutate(stream))} {
			var pieces [][]byte
			for rest := data; len(rest) > 0; {
				n := min(len(rest), 1+r.IntN(2*len(data)))
				pieces, rest = append(pieces, rest[:n]), rest[n:]
			}
			drop := r.IntN(2) == 0
			want, got := rawEvents(pieces, drop, true, nil), rawEvents(pieces, drop, false, nil)
			c, w, err := sameEvents(want, got, drop, i > 0)
			if err != nil {
				t.Fatalf("seed %d: %v\n%.3000q", seed, err, data)
			}
			cuts, wrong = cuts+c, wrong+w
		}
	}
	if seeds.Count() >= 40 && (cuts < 100 || wrong == 0) {
		t.Errorf("%d events were cut, %d of them wrongly, want many, and a few", cuts, wrong)
	}
}

// randomEvent returns an event and what is between it and the next one.
func randomEvent(r *decodetest.Random) []byte {
	object := bytes.Replace(r.Object(), []byte(`"name":"n"`),
		[]byte(`"name":"n","namespace":"x","uid":"u","resourceVersion":"7"`), 1)
	text := `{"type":"` + []string{"ADDED", "MODIFIED", "DELETED"}[r.IntN(3)] + `","object":` + string(object)
	if r.IntN(40) == 0 {
		text += `,"more":{"a":{}}`
	}
	between := "\n"
	if r.IntN(8) == 0 {
		between = []string{"", " ", "\r\n", "\n\n", "\n \n"}[r.IntN(5)]
	}
	return []byte(text + "}" + between)
}

// sameEvents compares events that were scanned with those that may have been cut. It counts those that were cut, and
// those that are no object because of that. If the stream is broken, what follows such a one may differ. Of metadata
// that is there twice, a cut drops managedFields once.
func sameEvents(want, got []rawEvent, drop, broken bool) (cuts, wrong int, err error) {
	for i, g := range got {
		raw := !strings.HasPrefix(g.JSON, "decoded: ")
		u, err := decode.Decode([]byte(g.JSON))
		switch {
		case raw && err != nil:
			wrong++
		case raw && drop:
			unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
		}
		if raw && g.Lines {
			cuts++
		}
		switch {
		case i < len(want) && want[i].Type == "ERROR": // what client-go rejects may be delivered
			return cuts, wrong, nil
		case raw && err != nil && !decode.IsWhole([]byte(g.JSON)): // the user sees that
			if broken {
				return cuts, wrong, nil
			}
		case i >= len(want):
			return 0, 0, fmt.Errorf("event %d is more than was scanned: %+v", i, g)
		case g.Type != want[i].Type:
			return 0, 0, fmt.Errorf("event %d: want %+v, got %+v", i, want[i], g)
		case g.JSON == want[i].JSON:
		case raw && err == nil && encoded(u) == want[i].JSON:
		default:
			return 0, 0, fmt.Errorf("event %d: want %+v, got %+v", i, want[i], g)
		}
	}
	return cuts, wrong, nil
}

// BenchmarkRaw receives raw events of Pods, whose end is scanned for or is that of their line, without a connection.
func BenchmarkRaw(b *testing.B) {
	var data []byte
	for len(data) < maxRead {
		data = append(data, decodetest.PodEvent(len(data))...)
	}
	for name, scan := range map[string]bool{"cut": false, "scan": true} {
		b.Run(name, func(b *testing.B) {
			var of format = &jsonFormat{}
			if scan {
				of = scanningFormat{of.(*jsonFormat)}
			}
			f := newFrames(newDecoders(of, false), newPipe(of, io.NopCloser(bytes.NewReader(nil))))
			f.raw = true
			events, size := 0, int64(0)
			b.ReportAllocs()
			for b.Loop() {
				f.pipe.add(data, nil)
				for {
					ev, ok, _ := f.next()
					if !ok {
						break
					}
					events, size = events+1, size+int64(len(ev.Raw.JSON))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
			b.ReportMetric(float64(size)/float64(events), "JSON-bytes/event")
		})
	}
}
