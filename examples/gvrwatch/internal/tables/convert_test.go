package tables_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/tables"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer requests url through the transport that Wrap adds. The server answers with a body.
func answer(t testing.TB, url string, from io.Reader) (io.ReadCloser, *tables.Tables) {
	t.Helper()
	cfg, tbl := tables.Wrap(&rest.Config{}, false)
	resp, err := cfg.WrapTransport(roundTripper(func(*http.Request) (*http.Response, error) {
		header := http.Header{"Content-Type": {"application/json"}, "Content-Length": {"7"}}
		return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(from), ContentLength: 7}, nil
	})).RoundTrip(get(t, url))
	if err != nil {
		t.Fatal(err)
	}
	if resp.ContentLength != -1 || resp.Header.Get("Content-Length") != "" {
		t.Errorf("the answer still has the length %d, %q", resp.ContentLength, resp.Header.Get("Content-Length"))
	}
	return resp.Body, tbl
}

func get(t testing.TB, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json")
	return r
}

const (
	listURL  = "https://a.test/api/v1/pods?limit=500"
	watchURL = "https://a.test/api/v1/pods?watch=true"

	head    = `"kind":"Table","apiVersion":"meta.k8s.io/v1"`
	columns = `"columnDefinitions":[{"name":"Name","type":"string","format":"name","description":"long","priority":0}]`
	partial = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":`
	defined = `{"columns":[{"name":"Name","type":"string","format":"name","description":"","priority":0}],"cells":`
)

// meta returns the metadata of an object, and object a converted object with its cells.
func meta(name string) string {
	return fmt.Sprintf(`{"name":%q,"uid":"u-%[1]s","resourceVersion":"7"}`, name)
}

func object(name, cells string) string {
	return partial + meta(name) + `,"KEY":` + defined + cells + `}}`
}

func bare(name string) string { return partial + meta(name) + `}` }

func row(name, cells string) string {
	return `{"cells":` + cells + `,"object":{"kind":"PartialObjectMetadata","metadata":` + meta(name) + `}}`
}

func table(members ...string) string {
	return "{" + strings.Join(append([]string{head}, members...), ",") + "}"
}

func frame(kind, object string) string { return `{"type":"` + kind + `","object":` + object + "}\n" }

func rows(rows ...string) string { return `"rows":[` + strings.Join(rows, ",") + `]` }

// converted reads an answer, and replaces the random key by KEY. It leaves out
// empty lines: white space is between frames only.
func converted(t testing.TB, url string, from io.Reader) (string, error) {
	t.Helper()
	body, tbl := answer(t, url, from)
	text, err := io.ReadAll(body)
	return strings.ReplaceAll(strings.ReplaceAll(string(text), tables.Key(tbl), "KEY"), "\n\n", "\n"), err
}

func TestWatches(t *testing.T) {
	for _, tt := range []struct{ in, want, why string }{
		{frame("ADDED", table(`"metadata":{}`, columns, rows(row("a", `["a"]`)))) +
			frame("MODIFIED", table(`"columnDefinitions":null`, rows(row("b", `["b", 5]`)))) +
			frame("DELETED", table(rows(row("b", `null`)))),
			frame("ADDED", object("a", `["a"]`)) + frame("MODIFIED", object("b", `["b",5]`)) +
				frame("DELETED", bare("b")),
			"only the first frame has columns; cells may be missing"},
		{frame("ADDED", table(columns, rows(row("a", `[1]`), row("b", `[2]`), `{"cells":[3]}`, `null`, `5`))),
			frame("ADDED", object("a", `[1]`)) + frame("ADDED", object("b", `[2]`)) +
				frame("ADDED", partial+`{},"KEY":`+defined+`[3]}}`) + strings.Repeat(frame("ADDED", partial+`{}}`), 2),
			"each row is an event; one without an object is unreadable, and not lost"},
		{frame("BOOKMARK", table(`"metadata":{"resourceVersion":"9"}`, columns,
			rows(`{"cells":["",0],"object":{"metadata":{"resourceVersion":"9",`+
				`"annotations":{"k8s.io/initial-events-end":"true"}}}}`,
				row("b", `[]`)))) + frame("ADDED", table(rows(row("a", `["a"]`)))),
			frame("BOOKMARK", partial+`{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}`) +
				frame("ADDED", object("a", `["a"]`)),
			"a bookmark keeps its annotations, has no cells, may define columns, and is one event"},
		{frame("BOOKMARK", table(`"metadata":{"resourceVersion":"9"}`)) +
			frame("BOOKMARK", table(`"metadata":{"resourceVersion":"10"}`, `"rows":[{}]`)) + frame("BOOKMARK", table()),
			frame("BOOKMARK", partial+`{"resourceVersion":"9"}}`) +
				frame("BOOKMARK", partial+`{"resourceVersion":"10"}}`) + frame("BOOKMARK", partial+`{}}`),
			"a bookmark without a row has the version of the Table"},
		{frame("ADDED", table(rows())), frame("ADDED", table(rows())), "a Table without rows is an unreadable event"},
		{frame("ADDED", table(`"rows":5`)) + frame("ADDED", table()) + `{"type":"ADDED"}` + "\n" + "5\nnull\n",
			frame("ADDED", table(`"rows":5`)) + frame("ADDED", table()) + `{"type":"ADDED"}` + "\n" + "5\nnull\n",
			"so are frames without rows or object"},
		{frame("ERROR", `{"kind":"Status","code":410}`) + frame("NEW", table(rows(row("a", `[]`)))),
			frame("ERROR", `{"kind":"Status","code":410}`) + frame("NEW", table(rows(row("a", `[]`)))),
			"errors and unknown types pass"},
		{frame("ADDED", `{"kind":"Table","apiVersion":"b.c/v1","rows":[{"object":{"metadata":{"name":"x"}}}]}`),
			frame("ADDED", `{"kind":"Table","apiVersion":"b.c/v1","rows":[{"object":{"metadata":{"name":"x"}}}]}`),
			"a tenant's kind Table"},
		{frame("ADDED", `{"kind":"W","apiVersion":"b/v1","KIND":"Table","APIVERSION":"meta.k8s.io/v1","rows":[{}]}`),
			frame("ADDED", `{"kind":"W","apiVersion":"b/v1","KIND":"Table","APIVERSION":"meta.k8s.io/v1","rows":[{}]}`),
			"keys are case-sensitive"},
		{frame("ADDED", table(columns, rows(row("a", `[]`)))) + "garbage" + frame("ADDED", table(rows(row("b", `[]`)))),
			frame("ADDED", object("a", `[]`)) + "garbage" + frame("ADDED", table(rows(row("b", `[]`)))),
			"from garbage on all passes"},
		{frame("ADDED", table(columns, rows(row("a", `[]`)))) + `{"type":"ADDED","obj`,
			frame("ADDED", object("a", `[]`)) + `{"type":"ADDED","obj`, "half a frame"},
		{frame("ADDED", table(columns,
			"\"rows\":[{\n\"cells\":[ 1e400 ,\"\xff\",[{}]],\n\"object\":{\"metadata\": {}}}]")),
			frame("ADDED", partial+`{},"KEY":`+defined+"[1e400,\"\xff\",[{}]]}}"),
			"a frame gets one line; values stay"},
		{frame("ADDED", table(columns, rows(row("a", `["`+strings.Repeat("x", 100<<10)+`"]`)))) +
			frame("ADDED", table(rows(row("b", `[1]`)))),
			frame("ADDED", object("a", `["`+strings.Repeat("x", 100<<10)+`"]`)) + frame("ADDED", object("b", `[1]`)),
			"what follows a large frame is not lost with its buffer"},
		{frame("ADDED", table(columns, rows(row("a", `[1]`)))) +
			frame("ADDED", table(`"columnDefinitions":[{"name":5}]`, rows(row("b", `[1]`)))),
			frame("ADDED", object("a", `[1]`)) + frame("ADDED", bare("b")), "invalid columns"},
		{frame("ADDED", table(`"columnDefinitions":[{"name":"`+strings.Repeat("x", 256<<10)+`"}]`,
			rows(row("a", `[1]`)))),
			frame("ADDED", bare("a")), "columns that are too large for each object"},
		{"", "", "no event"},
	} {
		for _, in := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in)),
			iotest.DataErrReader(strings.NewReader(tt.in))} {
			if got, err := converted(t, watchURL, in); cmp.Diff(tt.want, got) != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%.2000s", tt.why, err, cmp.Diff(tt.want, got))
			}
		}
	}
}

func TestLists(t *testing.T) {
	listed := func(rest string) string {
		return `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1"` + rest
	}
	for _, tt := range []struct{ in, want, err, why string }{
		{table(`"metadata":{"resourceVersion":"9","continue":"c","remainingItemCount":3}`, columns,
			rows(row("a", `["a"]`), row("b", `["b"]`))) + "\n",
			listed(`,"metadata":{"resourceVersion":"9","continue":"c","remainingItemCount":3},"items":[`) +
				object("a", `["a"]`) + "," + object("b", `["b"]`) + "]}\n", "", "a page"},
		{table(rows()), listed(`,"items":[]}`), "", "an empty list"},
		{table(`"rows":null`, `"more":{"items":[1]}`), listed(`,"items":[]}`), "",
			"null is empty; unknown fields are dropped"},
		{table(`"metadata":{}`), listed(`,"metadata":{}}`), "must have rows",
			"an answer without rows must not become an empty list: everything would seem deleted"},
		{table(`"rows":{}`), listed(","), "must have rows", "rows are no list"},
		{table(rows(), rows(row("a", `[]`))), listed(`,"items":[]`), "rows once", "which rows would count?"},
		{table(rows(`null`, `{}`, `5`)), listed(`,"items":[`) + strings.Repeat(","+partial+`{}}`, 3)[1:] + "]}", "",
			"rows without objects have no name, so the Stream refuses the page"},
		{`{"apiVersion":"meta.k8s.io/v1",` + columns + `,"kind":"Table",` + rows(row("a", `[1]`)) + `}`,
			`{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","items":[` +
				object("a", `[1]`) + "]}", "",
			"sorted fields"},
		{`{"kind":"PodList","apiVersion":"v1","items":[{"rows":1}]}`,
			`{"kind":"PodList","apiVersion":"v1","items":[{"rows":1}]}`,
			"", "no Table"},
		{`{"kind":"Table","apiVersion":"b/v1","rows":[{}]}`, `{"kind":"Table","apiVersion":"b/v1","rows":[{}]}`, "",
			"a tenant's listKind Table"},
		{`{"rows":[{}],` + head + `}`, `{"rows":[{}],` + head + `}`, "", "rows first: it is not known what they are"},
		{`[` + table(rows()) + `]`, `[` + table(rows()) + `]`, "", "no object"},
		{"garbage", "garbage", "", "no JSON"},
		{`{"kind":"Table"`, `{"kind":"Table"`, "", "cut off before its kind is known"},
		{"{" + head + ",", listed(``), "unexpected EOF", "cut off"},
		{"{" + head + `,"rows":[` + row("a", "[]") + ",", listed(`,"items":[`) + bare("a"), "unexpected EOF",
			"in the rows"},
		{"{" + head + `,"rows":[` + row("a", "[]") + "}", listed(`,"items":[`) + bare("a"), "invalid character",
			"the wrong bracket"},
		{"{" + head + `,"more":}`, listed(``), "invalid character", "a dropped field must not hide what is invalid"},
		{table(rows()) + "garbage", listed(`,"items":[]}`) + "garbage", "", "garbage after the list"},
	} {
		for _, in := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in))} {
			got, err := converted(t, listURL, in)
			if diff := cmp.Diff(tt.want, got); diff != "" || !matches(err, tt.err) {
				t.Errorf("%s: %v, want %q (-want +got):\n%s", tt.why, err, tt.err, diff)
			}
		}
	}
}

func matches(err error, text string) bool {
	return err == nil && text == "" || err != nil && text != "" && strings.Contains(err.Error(), text)
}

// What breaks a connection reaches the client as it is.
func TestReadErrors(t *testing.T) {
	broken := errors.New("connection lost")
	for _, tt := range []struct{ url, in, want string }{
		{watchURL, frame("ADDED", table(rows(row("a", `[]`)))) + `{"type`, frame("ADDED", bare("a")) + `{"type`},
		{listURL, "{" + head + `,"rows":[`,
			`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[`},
		{listURL, `{"kind":"PodList`, `{"kind":"PodList`},
	} {
		got, err := converted(t, tt.url, io.MultiReader(strings.NewReader(tt.in), iotest.ErrReader(broken)))
		if diff := cmp.Diff(tt.want, got); diff != "" || err != broken {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

// endless is a body of a beginning and endless repetitions. It counts what is read.
type endless struct {
	begin, repeated string
	read            int64
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if e.begin == "" {
			e.begin = e.repeated
		}
		m := copy(p[n:], e.begin)
		e.begin, n = e.begin[m:], n+m
	}
	e.read += int64(n)
	return n, nil
}

func TestHugeAnswers(t *testing.T) {
	for _, tt := range []struct {
		url, begin, repeated string
		want                 string // how the output begins; what exceeds a limit passes
		err                  string
		why                  string
	}{
		{watchURL, `{"type":"`, "x", `{"type":"xxx`, "", "a frame"},
		{watchURL, "", " ", "   ", "", "white space"},
		{watchURL, "", "[", "[[[", "", "brackets"},
		{listURL, `{"x":"`, "x", `{"x":"xxx`, "", "a field before the kind"},
		{listURL, `{`, `"x":"` + strings.Repeat("x", 10_000) + `",`, `{"x":"xxx`, "", "fields before the kind"},
		{listURL, "{" + head + `,"x":"`, "x", "", "more than 16 MiB", "a field"},
		{listURL, "{" + head + `,`, `"x":"` + strings.Repeat("x", 10_000) + `",`, "", "more than 128 MiB",
			"fields that are dropped"},
		{listURL, "{" + head + `,"rows":[{"x":"`, "x", `{"kind":"PartialObjectMetadataList"`, "", "a row"},
	} {
		from := &endless{begin: tt.begin, repeated: strings.Repeat(tt.repeated, 1000)}
		body, _ := answer(t, tt.url, from)
		const much = 20 << 20
		n, err := io.CopyN(&prefix{t, tt.want, tt.why}, body, much)
		switch {
		case !matches(err, tt.err):
			t.Errorf("%s: %v, want %q", tt.why, err, tt.err)
		case err == nil && n != much, from.read > 160<<20:
			t.Errorf("%s: %d bytes were read, and became %d", tt.why, from.read, n)
		}
	}
}

// prefix checks how the text that it receives begins.
type prefix struct {
	t         *testing.T
	want, why string
}

func (p *prefix) Write(b []byte) (int, error) {
	if p.want != "" && !bytes.HasPrefix(b, []byte(p.want)) {
		p.t.Errorf("%s: the output begins with %.50q", p.why, b)
	}
	p.want = ""
	return len(b), nil
}

func TestNumberOfRowsTakesNoMemory(t *testing.T) {
	in := frame("ADDED", table(`"columnDefinitions":[{"name":"`+strings.Repeat("x", 200<<10)+`"}]`,
		`"rows":[`+strings.Repeat(`{"cells":[]},`, 1_000_000)+`{}]`))
	body, _ := answer(t, watchURL, strings.NewReader(in))
	allocated := testing.AllocsPerRun(1, func() { _, _ = io.CopyN(io.Discard, body, 64<<20) })
	if allocated > 20_000 { // of 250 rows
		t.Errorf("%v allocations for 64 MiB of 1,000,000 rows with columns of 200 KiB: all are converted at once",
			allocated)
	}
}

// TestWholeObjects: with whole, objects keep the fields that the server includes, beside the cells.
func TestWholeObjects(t *testing.T) {
	const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"x":[1]}}`
	const want = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"x":[1]},"KEY":` + defined + `["a"]}}`
	for url, tt := range map[string]struct{ in, want string }{
		watchURL: {frame("ADDED", table(columns, rows(`{"cells":["a"],"object":`+pod+`}`))), frame("ADDED", want)},
		listURL: {table(`"metadata":{}`, columns, rows(`{"cells":["a"],"object":`+pod+`}`)),
			`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[` + want + `]}`},
	} {
		cfg, tbl := tables.Wrap(&rest.Config{}, true)
		query := ""
		resp, err := cfg.WrapTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
			query = r.URL.Query().Get("includeObject")
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(tt.in))}, nil
		})).RoundTrip(get(t, url))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		got := strings.TrimSpace(strings.ReplaceAll(string(text), tables.Key(tbl), "KEY"))
		if diff := cmp.Diff(strings.TrimSpace(tt.want), got); diff != "" || err != nil || query != "Object" {
			t.Errorf("%s, includeObject=%q, %v (-want +got):\n%s", url, query, err, diff)
		}
	}
}
