package jetstream_test

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine/jetstream"
)

// TestMessagesAreDocumented: MESSAGES.md has the subjects of doc.go, each header that is published, and each field of a
// position, and no others.
func TestMessagesAreDocumented(t *testing.T) {
	text := func(file string) string {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	page := text("../../MESSAGES.md")
	rows := func(title string) []string {
		_, rest, _ := strings.Cut(page, "\n## "+title+"\n")
		rest, _, _ = strings.Cut(rest, "\n## ")
		var all []string
		for _, row := range regexp.MustCompile("(?m)^\\| `([\\w-]+)` \\| ").FindAllStringSubmatch(rest, -1) {
			all = append(all, row[1])
		}
		slices.Sort(all)
		return all
	}
	subjects := regexp.MustCompile(`(?m)^(?://\t)?(PREFIX[.-].*)$`)
	var want, got []string
	for _, found := range subjects.FindAllStringSubmatch(text("doc.go"), -1) {
		want = append(want, found[1])
	}
	for _, found := range subjects.FindAllStringSubmatch(page, -1) {
		got = append(got, found[1])
	}
	if d := cmp.Diff(want, got); d != "" || len(want) == 0 {
		t.Errorf("subjects -doc.go +MESSAGES.md:\n%s", d)
	}

	var fields []string
	for f := range reflect.TypeFor[engine.Position]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields = append(fields, name)
	}
	slices.Sort(fields)
	if d := cmp.Diff(fields, rows("Positions")); d != "" {
		t.Errorf("fields -of a position +documented:\n%s", d)
	}

	headers := map[string]bool{}
	ofTransport := regexp.MustCompile("^Nats-(Batch-.*|Stream|Subject|Sequence|Time-Stamp)$") // batches and direct gets
	for _, noAtomic := range []bool{false, true} {
		dir, log := open(t, jetstream.Options{Create: jetstream.Create{NoAtomic: noAtomic}})
		if _, err := log.Publish(t.Context(), []engine.Part{{
			Unit: pods, Messages: []engine.Message{object(engine.Added, "a", "u", "1")},
		}}); err != nil {
			t.Fatal(err)
		}
		js := connectJS(t, urlOf(t, dir))
		s, err := js.Stream(t.Context(), "K8S")
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.GetLastMsgForSubject(t.Context(), "k8s.>")
		if err != nil {
			t.Fatal(err)
		}
		for name := range m.Header {
			if !ofTransport.MatchString(name) {
				headers[name] = true
			}
		}
	}
	if d := cmp.Diff(slices.Sorted(maps.Keys(headers)), rows("Headers")); d != "" {
		t.Errorf("headers -published +documented:\n%s", d)
	}
}
