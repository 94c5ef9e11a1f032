package tables_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/tables"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// tabler makes Tables of what a streamtest server sends, as a kube-apiserver does: a watch has columns in its first
// frame only. What is no JSON passes, so the faults of a script stay. Each answer has columns of its own.
type tabler struct {
	next http.RoundTripper
	sent *atomic.Int64 // answers
}

func (t tabler) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	asked := strings.HasPrefix(r.Header.Get("Accept"), "application/json;as=Table") &&
		r.URL.Query().Get("includeObject") == "Metadata"
	if err != nil || !asked || resp.StatusCode != 200 {
		return resp, err
	}
	number := t.sent.Add(1)
	column := fmt.Sprint("column ", number%3)
	if r.URL.Query().Get("watch") == "" {
		text, err := io.ReadAll(resp.Body)
		resp.Body = tabled{io.MultiReader(bytes.NewReader(tableOf(text, column)), failing{err}), resp.Body}
		return resp, nil
	}
	resp.Body = tabled{&lines{from: bufio.NewReader(resp.Body), column: column}, resp.Body}
	return resp, nil
}

type tabled struct {
	io.Reader
	io.Closer
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// tableOf returns a Table of a list, or what it is if that is no list.
func tableOf(text []byte, column string) []byte {
	var list struct {
		Metadata json.RawMessage   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(text, &list) != nil || list.Items == nil {
		return text
	}
	rows := make([]string, len(list.Items))
	for i, item := range list.Items {
		rows[i] = rowOf(item, column)
	}
	return fmt.Appendf(nil, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":%s,%s,"rows":[%s]}`,
		list.Metadata, definitions(column), strings.Join(rows, ","))
}

func definitions(column string) string {
	return fmt.Sprintf(`"columnDefinitions":[{"name":"Name","type":"string"},{"name":%q,"type":"string"}]`, column)
}

// rowOf returns a row whose cells are the version of the object and the name of the second column.
func rowOf(object []byte, column string) string {
	var o struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	var m struct {
		ResourceVersion string `json:"resourceVersion"`
	}
	_, _ = json.Unmarshal(object, &o), json.Unmarshal(o.Metadata, &m)
	return fmt.Sprintf(`{"cells":[%q,%q],"object":{"kind":"PartialObjectMetadata","metadata":%s}}`,
		m.ResourceVersion, column, o.Metadata)
}

// lines converts a watch. Each frame of streamtest is a line.
type lines struct {
	from   *bufio.Reader
	column string
	begun  bool
	out    bytes.Buffer
	err    error
}

func (l *lines) Read(p []byte) (int, error) {
	for l.out.Len() == 0 {
		if l.err != nil {
			return 0, l.err
		}
		var line []byte
		line, l.err = l.from.ReadBytes('\n')
		var f struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if json.Unmarshal(line, &f) != nil || f.Type == "ERROR" || bytes.ContainsRune(line, '\uFFFD') {
			l.out.Write(line)
			continue
		}
		columns := `"columnDefinitions":null`
		if !l.begun {
			l.begun, columns = true, definitions(l.column)
		}
		fmt.Fprintf(&l.out, `{"type":%q,"object":{"kind":"Table","apiVersion":"meta.k8s.io/v1",%s,"rows":[%s]}}`+"\n",
			f.Type, columns, rowOf(f.Object, l.column))
	}
	return l.out.Read(p)
}

const historySeeds = seedtest.Default(200)

// TestSequenceIsThatWithoutTables runs Streams over random histories under random faults, and checks that what they
// deliver keeps every promise, and that each object has the cells of its own version, in the columns of its answer.
func TestSequenceIsThatWithoutTables(t *testing.T) {
	var rows, events atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		historySeeds.Run(t, func(t *testing.T, seed uint64) {
			synctest.Test(t, func(t *testing.T) {
				r := &run{T: t, Rand: rand.New(rand.NewPCG(seed, 1)), tables: seed%8 != 7}
				r.run()
				rows.Add(r.rows)
				events.Add(r.events)
			})
		})
	})
	t.Logf("%d of %d events had rows", rows.Load(), events.Load())
	if rows.Load() == 0 {
		t.Error("no event had a row")
	}
}

// run is one run with random options, changes and faults.
type run struct {
	*testing.T
	*rand.Rand
	tables bool // the server makes Tables
	srv    *streamtest.Server
	script string

	rows, events int64
}

func widgets() gvr.Resource {
	r := gvr.Resource{Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"}}
	r.Group, r.Version, r.Resource = "example.com", "v1", "widgets"
	return r
}

func (r *run) pick(of ...string) string { return of[r.IntN(len(of))] }

func (r *run) do(what string) {
	if err := r.srv.Do(what); err != nil {
		r.Fatal(err)
	}
}

func (r *run) write() {
	ns, name := r.pick("one", "two"), r.pick("a", "b", "c", "d", "e", "f")
	if r.IntN(3) == 0 {
		_, _ = r.srv.Delete(widgets(), ns, name)
		return
	}
	// A field with the name of the design's first draft, and one that looks like a Table.
	r.srv.Put(widgets(), ns, name, "labels.size="+r.pick("0", "1"), "table.cells=x", fmt.Sprint("rows.n=", r.IntN(9)))
}

func (r *run) faults() {
	for range r.IntN(7) {
		nth := r.pick("1", "2", "1-3", "3-5")
		line := r.pick(
			r.pick("list ", "page ", "probe ", "watch ", "initial ")+nth+": "+
				r.pick("500", "429 retry-after 3s", "503 plain", "refuse", "reset",
					"garbage", "close", "slow 2s", "410"),
			"initial "+nth+": "+r.pick("no marker", "plain marker", "ignore initial", "422"),
			"watch "+nth+r.pick("", " after 1 frames", " after 3s")+": "+
				r.pick("close", "replay 3", "half-open", "reset", "410 in stream", "error frame",
					"error not status", "frames after error"),
			r.pick("watch ", "initial ")+nth+r.pick(" after 1 frames: ", " after 2 frames: ")+
				r.pick("reset inside frame", "garbage", "unknown type", "invalid utf-8", "no name",
					"no version", "410 in stream"),
			fmt.Sprintf("change %d: ", 20+r.IntN(60))+
				r.pick("garbage", "unknown type", "no name", "reset inside frame"),
			"page "+nth+": "+r.pick("inconsistent pages", "token circle"),
			"list "+nth+": no version", "list "+nth+": stale 2")
		if err := r.srv.Apply(line); err == nil {
			r.script += line + "\n"
		} else if !strings.Contains(err.Error(), "can never happen") {
			r.Fatal(err)
		}
	}
}

var errTimeUp = errors.New("the time is up")

func (r *run) run() {
	r.srv = streamtest.NewServer(widgets()).AllFaults(friend.Access{})
	defer r.srv.Close()
	for range r.IntN(20) {
		r.write()
	}
	r.faults()
	cfg := r.srv.Config()
	if r.tables {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return tabler{next, new(atomic.Int64)} })
	}
	cfg, tbl := tables.Wrap(cfg, false)
	client, err := stream.NewClient(cfg, &stream.ClientOptions{DropManagedFields: r.IntN(2) == 0})
	if err != nil {
		r.Fatal(err)
	}
	o := stream.Options{Objects: stream.Raw, Requests: stream.Requests{PageSize: 2 + r.IntN(6),
		PagedLists: r.IntN(2) == 0}}
	bookmarks := r.IntN(2) == 0
	check := streamtest.CheckOptions{Transform: onlyMetadata, Complete: true}
	if r.IntN(3) == 0 {
		o.Select = func(m stream.Meta) bool { return m.GetLabels()["size"] == "1" }
		check.Selected = func(u *unstructured.Unstructured) bool { return o.Select(u) }
	}
	if r.IntN(3) == 0 {
		o.Namespaces = []string{"one", "two"}
		check.Namespaces = o.Namespaces
	}
	s, err := stream.New(client, widgets(), &o)
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for range 10 + r.IntN(30) {
			time.Sleep(time.Duration(r.IntN(20_000)) * time.Millisecond)
			if r.write(); r.IntN(8) == 0 {
				r.do(r.pick("compact", "restart", "widgets expire", "widgets close watches", "widgets silence",
					"410 as status", "410 in stream", "rewind 2 restart"))
			}
		}
		r.do("heal")
		time.Sleep(20 * time.Minute)
		cancel(errTimeUp)
	})
	rec := streamtest.Record(s.With(stream.Run{Bookmarks: bookmarks}).Events(ctx), nil)
	writer.Wait()
	if refused, _ := errors.AsType[*stream.RequestError](rec.Err); refused != nil {
		check.Complete = false // before SYNCED
	} else if rec.Err != errTimeUp {
		r.Errorf("the run ended with %v", rec.Err)
	}
	for i, ev := range rec.Events {
		rec.Events[i] = r.plain(tbl, ev)
	}
	history := r.srv.History(widgets(), &stream.Options{Namespaces: o.Namespaces})
	if err := streamtest.Check(history, rec.Events, &check); err != nil {
		r.Errorf("%v\n\noptions: %+v, bookmarks: %v\nscript:\n%s\ndelivered:\n%s", err, o, bookmarks, r.script,
			strings.Join(rec.Texts(), "\n"))
	}
}

// plain checks the row of an event, and returns the event without it, as metadata of the kind of the resource.
func (r *run) plain(tbl *tables.Tables, ev stream.Event) stream.Event {
	columns, cells, ok := tbl.Row(ev)
	if r.events++; ok {
		r.rows++
	}
	if want := r.tables && ev.HasObject() && (!ev.Inferred || ev.Type != stream.Deleted); ok != want {
		r.Errorf("%s: row: %v, want %v", ev, ok, want)
	}
	if ok && (len(cells) != 2 || cells[0] != ev.ResourceVersion || cells[1] != columns[1].Name) {
		r.Errorf("%s has the columns %v and the cells %v", ev, columns, cells)
	}
	o, err := ev.Decode()
	if err != nil {
		return ev // no object
	}
	want := "Widget"
	if ok {
		want = "PartialObjectMetadata"
	}
	if o.GetKind() != want {
		r.Errorf("%s has the kind %q, want %q", ev, o.GetKind(), want)
	}
	onlyMetadata(o)
	o.SetAPIVersion("example.com/v1")
	o.SetKind("Widget")
	ev.JSON, ev.Object = nil, o
	return ev
}

func onlyMetadata(u *unstructured.Unstructured) {
	for field := range u.Object {
		if field != "apiVersion" && field != "kind" && field != "metadata" {
			delete(u.Object, field)
		}
	}
}
