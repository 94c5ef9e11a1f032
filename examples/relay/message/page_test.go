package message_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
	"github.com/gvrwatch/gvrwatch/stream"
)

// section returns a section of MESSAGES.md.
func section(t *testing.T, title string) string {
	t.Helper()
	page, err := os.ReadFile("../MESSAGES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n## "+title+"\n")
	if !found {
		t.Fatalf("MESSAGES.md has no section %s", title)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

func mainEncoder(limit int) *message.Encoder {
	return message.NewEncoder(message.EncoderOptions{
		Cluster: "main", ClusterUID: "c1", Limit: func() int { return limit },
	})
}

// encode returns an event of Deployments.
func encode(t *testing.T, limit int, ev stream.Event, epoch uint64, redact ...string) []byte {
	t.Helper()
	r, err := message.ParseRedaction(redact)
	if err != nil {
		t.Fatal(err)
	}
	m, err := mainEncoder(limit).Encode(apps, ev, epoch, r)
	if err != nil {
		t.Fatal(err)
	}
	return m.Data
}

// TestAttributesAreDocumented: MESSAGES.md lists each attribute that is emitted, with a type that its values have, and
// no other.
func TestAttributesAreDocumented(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([\\w-]+) \\| ")
	types := map[string]string{}
	for _, row := range rows.FindAllStringSubmatch(section(t, "Attributes"), -1) {
		types[row[1]] = row[2]
	}
	inferred := object(stream.Deleted, "7", web)
	inferred.Inferred = true
	gap := stream.Event{Type: stream.Gap, Namespace: "a", Gap: &stream.GapDetails{
		Reason: stream.GapExpired, From: "1", To: "2", HistoryLost: true,
	}}
	emitted := map[string]bool{}
	for _, data := range [][]byte{
		encode(t, 1<<20, coalesced(2, object(stream.Added, "7", web)), 1),
		encode(t, 1<<20, inferred, math.MaxInt32+1),
		encode(t, 1, object(stream.Modified, "7", web), 1),
		encode(t, 1<<20, object(stream.Modified, "7", web[:len(web)-1]), 1, "$.spec"),
		encode(t, 1<<20, gap, 1),
		encode(t, 1<<20, stream.Event{Type: stream.Synced, ResourceVersion: "7"}, 1),
		mainEncoder(1<<20).EncodeSkipped(apps, object(stream.Modified, "8", web), 1, engine.ErrTooLarge).Data,
	} {
		var event map[string]any
		if err := json.Unmarshal(data, &event); err != nil {
			t.Fatal(err)
		}
		for name, value := range event {
			emitted[name] = true
			text, is := value.(string)
			switch types[name] {
			case "String", "URI-reference", "Timestamp":
			case "Boolean":
				_, is = value.(bool)
			case "JSON":
				_, is = value.(map[string]any)
			case "Integer":
				if _, is = value.(float64); !is {
					is = regexp.MustCompile(`^\d{10,}$`).MatchString(text)
				}
			default:
				is = false
			}
			if !is {
				t.Errorf("%s is %v: MESSAGES.md says that it is %q", name, value, types[name])
			}
		}
	}
	if d := cmp.Diff(slices.Sorted(maps.Keys(emitted)), slices.Sorted(maps.Keys(types))); d != "" {
		t.Errorf("-emitted +documented:\n%s", d)
	}
	for _, reason := range []stream.GapReason{
		stream.GapExpired, stream.GapRewound, stream.GapFuture, stream.GapPoison, stream.GapUnordered,
		stream.GapUnversioned, stream.GapRestarted, stream.GapScope,
	} {
		if !strings.Contains(section(t, "Attributes"), "`"+string(reason)+"`") {
			t.Errorf("the reason %s is not documented", reason)
		}
	}
}

// TestExamplesAreEmitted: the examples in MESSAGES.md are what the encoder emits.
func TestExamplesAreEmitted(t *testing.T) {
	const text = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","uid":"u1"}}`
	var got []string
	examples := regexp.MustCompile("(?s)```json\n(.*?)```")
	for _, found := range examples.FindAllStringSubmatch(section(t, "Examples"), -1) {
		var b bytes.Buffer
		if err := json.Compact(&b, []byte(found[1])); err != nil {
			t.Fatal(err)
		}
		got = append(got, b.String())
	}
	synctest.Test(t, func(t *testing.T) {
		var want []string
		for _, ev := range []stream.Event{
			object(stream.Added, "7", text), object(stream.Modified, "8", text), object(stream.Deleted, "9", text),
			{Type: stream.Gap, Gap: &stream.GapDetails{Reason: stream.GapExpired, From: "9", To: "20"}},
			{Type: stream.Synced, ResourceVersion: "20"},
		} {
			want = append(want, string(encode(t, 1<<20, ev, 1)))
		}
		skipped := mainEncoder(1<<20).EncodeSkipped(apps, object(stream.Modified, "8", text), 1, engine.ErrTooLarge)
		want = append(want, string(skipped.Data))
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("-emitted +documented:\n%s", d)
		}
	})
}
