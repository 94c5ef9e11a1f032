package main

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/stream"
)

func newTemplatePrinter(t *testing.T, output string, out, errOut io.Writer) eventPrinter {
	t.Helper()
	o := watchOptions{print: printFlags{output: output, watchEvents: true}}
	if err := o.checkOutput(); err != nil {
		t.Fatal(err)
	}
	p, err := printing{
		streams: genericiooptions.IOStreams{Out: out, ErrOut: errOut}, flags: o.print,
	}.newPrinter()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTemplatesAreBounded: an object on which a JSONPath would take too much is an error of its event. The one after it
// is printed.
func TestTemplatesAreBounded(t *testing.T) {
	nested := func(depth int, value string) string {
		return strings.Repeat(`{"a":`, depth) + `"` + value + `"` + strings.Repeat("}", depth)
	}
	const deep, large = "the object is too deep or too large for", "the result is larger than 32 MiB"
	for _, tt := range []struct{ output, object, want, why string }{
		{"jsonpath={..a}", nested(9900, "x"), deep, "a deep object"},
		{"jsonpath-as-json={..a}", nested(9900, "x"), deep, "a deep object"},
		{"jsonpath={.spec.a}{range ..a}{..a}{end}", nested(1000, "x"), deep, "a descent from each result of another"},
		{"custom-columns=A:..a", nested(9900, "x"), deep, "a deep object"},
		{"jsonpath={..a}", nested(1000, strings.Repeat("x", 1<<20)), large, "a value for each level around it"},
		{"custom-columns=A:..a", nested(1000, strings.Repeat("x", 1<<20)), large, "a value for each level around it"},
		{"jsonpath-as-json={.spec}", nested(9900, "x"), large, "the indentation"},
		{"jsonpath-as-json={..a}", nested(1000, "x"), large, "the indentation of each level"},
		{`go-template={{define "T"}}{{.}}{{if exists . "a"}}{{template "T" .a}}{{end}}{{end}}{{template "T" .spec}}`,
			nested(2000, strings.Repeat("x", 1<<16)), large, "a template that prints each level"},
	} {
		var stdout, stderr bytes.Buffer
		p := newTemplatePrinter(t, tt.output, &stdout, &stderr)
		hostile, good := event(stream.Added), event(stream.Added)
		var spec map[string]any
		if err := utiljson.Unmarshal([]byte(tt.object), &spec); err != nil {
			t.Fatal(err)
		}
		hostile.Object.Object["spec"], good.Object.Object["spec"] = spec, map[string]any{"a": "good"}
		written := 0
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, ev := range []stream.Event{hostile, good} {
			if err := p.print(ev, func() { written++ }); err != nil {
				t.Errorf("-o %s: %s: %v", tt.output, tt.why, err)
			}
		}
		runtime.ReadMemStats(&after)
		if err := p.flush(); err != nil {
			t.Fatal(err)
		}
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 300 {
			t.Errorf("-o %s: %s: it took %d MB", tt.output, tt.why, mb)
		}
		format, _, _ := strings.Cut(tt.output, "=")
		want := "gvrwatch: --output=" + format + ": nothing is printed of boat.example.com/argo: " + tt.want
		if !strings.HasPrefix(stderr.String(), want) || strings.Count(stderr.String(), "\n") != 1 ||
			!strings.Contains(stdout.String(), "good") || written != 2 {
			t.Errorf("-o %s: %s: %d written\n%.300s%.300s", tt.output, tt.why, written, &stdout, &stderr)
		}
	}
}

// TestPathsAreOfEachObject: what one object makes of a path is not left to the next.
func TestPathsAreOfEachObject(t *testing.T) {
	for _, tt := range []struct{ output, want, why string }{
		{"jsonpath={range .spec[*]}{.a} {end}{.metadata.name}", "1 2 argo\n", "a range"},
		{"jsonpath={range .spec[*]}{range .b[*]}{@},{end}{end}", "3,4,\n", "a range in a range"},
		{"jsonpath={.spec[-1:].b[0]}", "3\n", "an index from the end"},
	} {
		var stdout bytes.Buffer
		p := newTemplatePrinter(t, tt.output, &stdout, &bytes.Buffer{})
		ev := event(stream.Added)
		ev.Object.Object["spec"] = []any{
			map[string]any{"a": int64(1)}, map[string]any{"a": int64(2), "b": []any{int64(3), int64(4)}},
		}
		for range 3 {
			if err := p.print(ev, ack); err != nil {
				t.Errorf("-o %s: %s: %v", tt.output, tt.why, err)
			}
		}
		if diff := cmp.Diff(strings.Repeat(tt.want, 3), stdout.String()); diff != "" {
			t.Errorf("-o %s: %s (-want +got):\n%s", tt.output, tt.why, diff)
		}
	}
}

// TestErrorsOfPathsQuoteNothing: no error has what is in the object.
func TestErrorsOfPathsQuoteNothing(t *testing.T) {
	var stderr bytes.Buffer
	p := newTemplatePrinter(t, "jsonpath={.spec[?(@.a)]}", &bytes.Buffer{}, &stderr)
	ev := event(stream.Added)
	ev.Object.Object["spec"] = map[string]any{"password": "x"}
	const want = "gvrwatch: --output=jsonpath: the template can't be used on boat.example.com/argo: " +
		"what it filters is not array or slice and cannot be filtered\n"
	if err := p.print(ev, ack); err != nil || stderr.String() != want {
		t.Errorf("want %q, got %v, %s", want, err, &stderr)
	}
}

// TestOddObjectsAreLeftOut: one object whose field has another type does not end the run, and is an error at the end.
func TestOddObjectsAreLeftOut(t *testing.T) {
	s := newScripted(t, robotType)
	s.Put(robotType, "default", "a", "spec.n=x")
	for _, name := range []string{"b", "c"} {
		_, err := s.Create(robotType, &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": "default", "name": name},
			"spec":     map[string]any{"n": []any{name}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	const odd = "gvrwatch: --output=jsonpath: the template can't be used on robot.example.com/a: "
	const last = "gvrwatch: --output=jsonpath: the template can't be used on 1 event, of which nothing is printed\n"
	const output = " -o jsonpath={.spec.n[0]}"
	for _, c := range []struct {
		why, args string
		status    int
	}{
		{"a run that ends with what exists", "get robots", 1},
		{"a run that ends by --limit", "watch robots --limit 3", 1},
		{"a run that ends by --timeout", "watch robots --timeout 500ms", 1},
	} {
		stdout, stderr := s.start(c.args + output).wait(c.status)
		if stdout != "b\nc\n" || !strings.Contains(stderr, odd) || !strings.HasSuffix(stderr, last) {
			t.Errorf("%s: %q\n%s", c.why, stdout, stderr)
		}
	}
	p := s.start("watch robots" + output)
	p.awaitStdout("c\n")
	p.awaitStderr("robots.v1.example.com: synced")
	p.end() // a signal is a normal end
	for i := range 30 {
		s.Put(robotType, "default", fmt.Sprint("odd-", i), "spec.n=x")
	}
	s.start("get robots -l none=none" + output).wait(0)
	_, stderr := s.start("get robots" + output).wait(1)
	if n := strings.Count(stderr, "\n"); n > 13 || !strings.Contains(stderr, "more objects are left out") {
		t.Errorf("%d lines on stderr:\n%s", n, stderr)
	}
	_, stderr = s.start("watch robots -o jsonpath={.metadata.name[0]}").wait(1)
	if !strings.HasSuffix(stderr, "the template can't be used on any of the first 11 objects\n") {
		t.Errorf("a template that is wrong ends the run:\n%s", stderr)
	}
}

// TestTemplatesOfLists: kubectl get prints one list, which has .items, and the tool each object.
func TestTemplatesOfLists(t *testing.T) {
	for _, tt := range []struct{ output, instead string }{
		{"jsonpath={.items[*].metadata.name}", "{.metadata.name}"},
		{"jsonpath={.items[0].spec.containers[*].image}", "{.spec.containers[*].image}"},
		{"jsonpath={$.items[*].metadata.name}", "{$.metadata.name}"},
		{`jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}`, `{.metadata.name}{"\n"}`},
		{"jsonpath={.items}", "{@}"},
		{"go-template={{range .items}}{{.metadata.name}} {{end}}", "{{.metadata.name}}"},
		{"custom-columns=NAME:.items[*].metadata.name,KIND:.kind", "NAME:.metadata.name,KIND:.kind"},
		{"jsonpath={.spec.items[*].name}", ""},
		{"jsonpath={.metadata.name}", ""},
		{"custom-columns=ITEMS:.itemsLeft", ""},
	} {
		var stdout, stderr bytes.Buffer
		p := newTemplatePrinter(t, tt.output, &stdout, &stderr)
		list := event(stream.Added)
		list.Object.Object["items"] = []any{map[string]any{"metadata": map[string]any{"name": "x"}}}
		for i, ev := range []stream.Event{list, event(stream.Added), event(stream.Added)} {
			if err := p.print(ev, ack); err != nil {
				t.Errorf("%s: %v", tt.output, err)
			}
			if i == 0 && stderr.Len() > 0 {
				t.Errorf("%s: an object has the field: %s", tt.output, &stderr)
			}
		}
		format, _, _ := strings.Cut(tt.output, "=")
		leftOut := 0
		if tt.instead != "" && format != "custom-columns" { // which prints <none>
			leftOut = 2
		}
		if got := *p.(*templatePrinter).leftOut; got != leftOut {
			t.Errorf("%s: %d events are left out, want %d", tt.output, got, leftOut)
		}
		want := ""
		if tt.instead != "" {
			want = "gvrwatch: --output=" + format +
				": there are no .items here, because each object is printed by itself: use " + tt.instead + "\n"
		}
		if diff := cmp.Diff(want, strings.ReplaceAll(stderr.String(), " \n", "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.output, diff)
		}
	}
}
