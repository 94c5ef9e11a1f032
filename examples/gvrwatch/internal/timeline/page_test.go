package timeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/gvrwatch/gvrwatch/examples/internal/changes"
)

// hostile are texts that would do something in a page that took them for more than texts.
var hostile = []string{
	`</script><script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `<!--<script>`, `"><svg onload=alert(1)>`,
	"a\u2028b\u2029c", "a\x00b\x1bc", "\u202eabc\u2066", `{{.Title}}`, `' onmouseover='alert(1)`, "\xff\xfe",
	`&lt;b&gt;`,
	`javascript:alert(1)`, `__proto__`, `\u003c`, "]]>", "`${alert(1)}`",
}

// hostilePage has the hostile texts wherever a page has texts.
func hostilePage() Page {
	all := strings.Join(hostile, " ")
	p := Page{Title: all, Cluster: all, Selection: all, From: three, To: three.Add(time.Minute)}
	for i, text := range hostile {
		at := three.Add(time.Duration(i) * time.Second)
		p.Gaps = append(p.Gaps, Gap{From: at, To: at.Add(time.Second), Type: text, Namespace: text, Reason: text})
		p.Objects = append(p.Objects, Object{Type: text, Namespace: text, Name: text, Marks: []Mark{
			{Time: at, Kind: Created, By: []string{text}},
			{Time: at.Add(20 * time.Second), Kind: Changed, By: []string{text}, Note: text,
				Fields: []changes.Field{{Path: text, Old: text, New: text + "2"}}},
		}})
	}
	return p
}

func written(t testing.TB, p Page) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// parsed returns the elements of a page, and its data.
func parsed(t testing.TB, page []byte) (elements []*html.Node, d data) {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			elements = append(elements, n)
		}
		if attribute(n, "id") == "data" {
			if err := json.Unmarshal([]byte(n.FirstChild.Data), &d); err != nil {
				t.Fatal(err)
			}
		}
	}
	return elements, d
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// TestPageLoadsNothing: whatever the recording has, the page has one script, which its policy knows by its hash, and no
// element or attribute that a template without texts does not have.
func TestPageLoadsNothing(t *testing.T) {
	shape := func(p Page) (list []string) {
		elements, _ := parsed(t, written(t, p))
		for _, n := range elements {
			text := n.Data
			for _, a := range n.Attr {
				text += " " + a.Key
			}
			list = append(list, text)
		}
		return list
	}
	if diff := cmp.Diff(shape(Page{}), shape(hostilePage())); diff != "" {
		t.Errorf("texts have made elements or attributes (-want +got):\n%s", diff)
	}
	elements, _ := parsed(t, written(t, hostilePage()))
	var scripts, styles []string
	policy := ""
	for _, n := range elements {
		switch {
		case n.DataAtom == atom.Script && attribute(n, "type") == "":
			scripts = append(scripts, hashOf(n.FirstChild.Data))
		case n.DataAtom == atom.Style:
			styles = append(styles, hashOf(n.FirstChild.Data))
		case attribute(n, "http-equiv") == "Content-Security-Policy":
			policy = attribute(n, "content")
		case slices.Contains([]string{"link", "img", "iframe", "object", "embed", "base", "form", "a"}, n.Data):
			t.Errorf("the page has an element %s", n.Data)
		}
		for _, a := range n.Attr {
			if slices.Contains([]string{"src", "href", "style", "srcdoc"}, a.Key) || strings.HasPrefix(a.Key, "on") {
				t.Errorf("the page has an attribute %s=%q", a.Key, a.Val)
			}
		}
	}
	if len(scripts) != 1 || len(styles) != 1 {
		t.Fatalf("the page has %d scripts and %d styles", len(scripts), len(styles))
	}
	want := "default-src 'none'; base-uri 'none'; form-action 'none'; style-src '" + styles[0] + "'; script-src '" +
		scripts[0] + "'"
	if diff := cmp.Diff(want, policy); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	// What is left are the names that createElementNS wants, which nothing loads.
	for _, source := range []string{script, style} {
		rest := strings.ReplaceAll(source, `"http://www.w3.org/2000/svg"`, "")
		for _, word := range []string{"http:", "https:", "//cdn", "@import", "url(", "fetch(", "XMLHttpRequest",
			"import(",
			"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc"} {
			if strings.Contains(rest, word) {
				t.Errorf("a script or the style has %q", word)
			}
		}
	}
}

// TestDataRoundTrips: what the page's script reads is what the recording has.
func TestDataRoundTrips(t *testing.T) {
	p := hostilePage()
	_, d := parsed(t, written(t, p))
	valid := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	text := func(i int) string { return d.Strings[i] }
	got := map[string][]string{}
	for _, o := range d.Objects {
		change := d.Changes[o.Marks[5]]
		got[text(o.Name)] = []string{text(o.Type), text(o.Namespace), text(change[0]), text(change[3]), text(change[4]),
			text(change[5]), text(change[6])}
		if kinds := []int64{o.Marks[1], o.Marks[4]}; !slices.Equal(kinds, []int64{int64(Created), int64(Changed)}) {
			t.Errorf("%q: the kinds are %v", text(o.Name), kinds)
		}
	}
	want := map[string][]string{}
	for _, s := range hostile {
		s = valid(s)
		want[s] = []string{s, s, s, s, s, s, s + "2"}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if d.From != three.UnixMilli() || d.To != three.Add(time.Minute).UnixMilli() || len(d.Gaps) != len(hostile) {
		t.Errorf("from %d to %d, %d gaps", d.From, d.To, len(d.Gaps))
	}
}

// TestPageIsTheSame: pages can be compared by their bytes, in whatever order the objects are.
func TestPageIsTheSame(t *testing.T) {
	p := many(50, 500)
	one := written(t, p)
	slices.Reverse(p.Objects)
	slices.Reverse(p.Gaps)
	if !bytes.Equal(one, written(t, p)) {
		t.Error("the same page is other bytes")
	}
}

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		why  string
		page Page
		want string
	}{
		{"nothing", Page{}, "0 objects: 0 created, 0 changed, 0 deleted, 0 existed before · 0 gaps"},
		{"no events", Page{Cluster: "https://a:6443", Selection: "pods", From: three, To: three.Add(time.Hour)},
			"cluster https://a:6443 · pods · 2026-11-27 03:00:00 to 2026-11-27 04:00:00 UTC · " +
				"0 objects: 0 created, 0 changed, 0 deleted, 0 existed before · 0 gaps"},
		{"characters that are not seen, or reorder others", Page{Cluster: "a\x00\u202eb", Selection: "c\U000E0001é"},
			`cluster a\u0000\u202eb · c\u{e0001}é · 0 objects: 0 created, 0 changed, 0 deleted, ` +
				"0 existed before · 0 gaps"},
		{"one of each, and a mark outside", Page{From: three, To: three, Objects: []Object{{Marks: []Mark{
			{Time: three, Kind: Existed}, {Time: three.Add(time.Second), Kind: Deleted}, {Time: three, Kind: Created},
		}}}, Gaps: []Gap{{From: three.Add(-time.Minute), To: three}}},
			"2026-11-27 02:59:00 to 2026-11-27 03:00:01 UTC · 1 object: 1 created, 0 changed, 1 deleted, " +
				"1 existed before · 1 gap"},
	} {
		d, n := encode(c.page)
		if diff := cmp.Diff(c.want, summary(c.page, d, n)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}

// TestPageIsBounded: authors of objects choose how long values are, and how many fields they change.
func TestPageIsBounded(t *testing.T) {
	long := strings.Repeat("ä", 10_000)
	var fields []changes.Field
	for range 500 {
		fields = append(fields, changes.Field{Path: long, Old: long + "1", New: long + "2"})
	}
	p := Page{Title: long, Cluster: long, Selection: long, Gaps: []Gap{{From: three, To: three, Reason: long}}}
	for range 20 {
		p.Objects = append(p.Objects, Object{Type: long, Namespace: long, Name: long, Marks: []Mark{{Time: three,
			Kind: Changed, By: slices.Repeat([]string{long}, 100), Fields: fields, Note: long}}})
	}
	page := written(t, p)
	if most := len(written(t, Page{})) + 30_000; len(page) > most {
		t.Errorf("the page has %d bytes, %d at most", len(page), most)
	}
	_, d := parsed(t, page)
	if len(d.Changes) != 2 {
		t.Fatalf("%d changes, although all marks have the same one", len(d.Changes))
	}
	change := d.Changes[1]
	if change[1] != 460 || change[2] != maxBy || len(change) != 3+maxBy+3*maxFields {
		t.Errorf("%d fields are left out, %d managers, %d numbers", change[1], change[2], len(change))
	}
	old, now := d.Strings[change[3+maxBy+1]], d.Strings[change[3+maxBy+2]]
	if old != "…ääääääääää1" || now != "…ääääääääää2" {
		t.Errorf("what differs is cut: %q, %q", old, now)
	}
}

func TestBounded(t *testing.T) {
	a, b := strings.Repeat("a", 300), strings.Repeat("b", 300)
	const more = "… (90 bytes more)"
	cutA, cutB := a[:210]+more, b[:210]+more
	for _, c := range []struct {
		why      string
		old, now string
		want     [2]string
	}{
		{"short values", "1", "2", [2]string{"1", "2"}},
		{"a long one that is new", "", a, [2]string{"", cutA}},
		{"long ones that differ from the begin", a, b, [2]string{cutA, cutB}},
		{"what differs is at the end", a + "1", a + "2", [2]string{"…" + a[:20] + "1", "…" + a[:20] + "2"}},
		{"one is the begin of the other", a, a + b,
			[2]string{"…" + a[:20], "…" + a[:20] + b[:189] + "… (111 bytes more)"}},
		{"no UTF-8", "\xff", "\xfe2", [2]string{"\uFFFD", "\uFFFD2"}},
	} {
		got, _ := bounded([]changes.Field{{Old: c.old, New: c.now}})
		if diff := cmp.Diff([]changes.Field{{Old: c.want[0], New: c.want[1]}}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
		if again, _ := bounded(got); !slices.Equal(got, again) {
			t.Errorf("%s: cut again: %q, %q", c.why, got, again)
		}
	}
}

// TestClockSetBack: the order of events is that of the recording, whatever its clock says.
func TestClockSetBack(t *testing.T) {
	d, _ := encode(Page{Objects: []Object{{Name: "a", Marks: []Mark{
		{Time: three.Add(time.Minute), Kind: Created}, {Time: three, Kind: Changed, Inferred: true},
	}}}})
	want := []int64{60_000, int64(Created), 0, 60_000, int64(Changed) + inferred, 0}
	if diff := cmp.Diff(want, d.Objects[0].Marks); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("no space left on device")

func TestWriteReturnsErrors(t *testing.T) {
	if err := Write(full{}, Page{}); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}
