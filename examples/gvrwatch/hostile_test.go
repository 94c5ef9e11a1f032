package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sigs.k8s.io/yaml"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// hostile has every character that a terminal or a reader of lines may interpret, and others that are harmless.
var hostile = func() string {
	s := "yes: \x1b[31m' \"é中👍 \u00a0\u3000\ufffd\ufffe\uffff\U000e0001\U0010ffff# \\x\\u202e - |"
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			s += string(r)
		}
	}
	return s
}()

// checkSafe fails the test if text has a character other than a line end that a terminal may interpret.
func checkSafe(t *testing.T, what, text string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%s: unprintable %q in %q", what, line[i:min(i+4, len(line))], line)
		}
		if line != strings.ToValidUTF8(line, "") {
			t.Errorf("%s: invalid UTF-8 in %q", what, line)
		}
	}
}

// oddObject has fields that a printer may interpret.
func oddObject(namespace string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"name": strings.ReplaceAll(hostile, "/", ""), "namespace": namespace,
			"labels": map[string]any{hostile: hostile}, "annotations": []any{hostile}, "creationTimestamp": hostile,
		},
		"items": []any{map[string]any{}, hostile, nil}, "status": hostile, "spec": []any{}, "message": hostile,
		"type": "DELETED", "object": nil, "columnDefinitions": int64(7),
		"rows": map[string]any{"y": 1.5, "<<": true, "=": "="},
		hostile: []any{
			"a\n\tb\n", "0x1f", "1:30", "~", "", " a", "a\n", "\n", "---\n", int64(1) << 60, 1e300, "\x1b\n", "\t\n é",
			"e" + strings.Repeat("\u0301", 20), strings.Repeat("\U0001d167", 20) + "\n" + strings.Repeat("\u1161", 20),
			strings.Repeat("long ", 100), map[string]any{strings.Repeat("k", 200): "\u202e", "n": []any{}, "yes": "no"},
		},
	}}
}

// newHostile returns a server that serves odd objects, and that refuses lists and watches of the types "badrequest",
// "forbidden" and "unavailable".
func newHostile(t *testing.T) (url string) {
	t.Helper()
	odd := newType("robots", "example.com", true, hostile)
	odd.Kind, odd.Singular, odd.ShortNames = "Robot"+hostile, hostile, []string{hostile, "rb"}
	types := []gvr.Resource{odd, newType("y"+strings.ToLower(strings.ReplaceAll(hostile, "/", "")), "space.io", true)}
	refused := map[string]int{"badrequest": 400, "forbidden": 403, "unavailable": 503}
	for name := range refused {
		types = append(types, newType(name, "example.com", true))
	}
	s := newScripted(t, types...)
	for _, namespace := range []string{"default", hostile} {
		if _, err := s.Create(odd, oddObject(namespace)); err != nil {
			t.Fatal(err)
		}
	}
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := refused[filepath.Base(r.URL.Path)]
		if code == 0 {
			s.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Warning", "299 - \"\u009b31m \u202e\"")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code),
			Message: hostile, Reason: metav1.StatusReason(hostile),
		})
	}))
	t.Cleanup(func() {
		hs.CloseClientConnections()
		hs.Close()
	})
	return hs.URL
}

// TestEveryOutputIsEscaped feeds every command with what servers, tenants and other processes may choose.
func TestEveryOutputIsEscaped(t *testing.T) {
	url, dir := newHostile(t), t.TempDir()
	path, locked := filepath.Join(dir, "positions.db"), filepath.Join(dir, "locked.db")
	store, err := file.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	object := checkpoint.Object{Namespace: hostile, Name: hostile, UID: "u", ResourceVersion: hostile}
	if err := store.Commit(t.Context(), []checkpoint.Delta{{
		Key: hostile, ResourceVersions: map[string]string{hostile: hostile}, Put: []checkpoint.Object{object},
		Identity: checkpoint.Identity{Namespaces: []string{hostile}, LabelSelector: hostile, Resource: hostile},
	}}); err != nil {
		t.Fatal(err)
	}
	store.Close()
	if store, err = file.Open(locked); err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := os.WriteFile(locked+".gvrwatch-lock", []byte(hostile), 0o600); err != nil {
		t.Fatal(err)
	}
	const anyNumber = -1
	tests := []struct {
		args          string // HOSTILE stands for the hostile text
		status, lines int    // of stdout
		stderr        string // part of it
	}{
		{"wait robots -A --for create", 0, 2, ""},
		{"wait robots -A --for create -o name", 0, 2, ""},
		{"wait robots -A --for create -o json", 0, 2, ""},
		{"wait robots -A --for condition=Ready --timeout 0", 1, 0, "condition not met for robots/yes"},
		{"wait robots -A --for ready --timeout 0", 1, 0, "is not ready (its status can't be read)"},
		{"wait forbidden --for create", 1, 0, "cannot watch forbidden.v1.example.com"},
		{"watch robots -A --until-synced", 0, 3, "synced"},
		{"watch robots -A --until-synced -o wide", 0, 3, ""},
		{"watch robots -A --until-synced -o name", 0, 2, ""},
		{"watch robots -A --until-synced -o json", 0, 3, ""},
		{"watch robots -A --until-synced -o yaml", 0, anyNumber, ""},
		{"watch robots,unavailable -A --limit 2 --latest", 0, 3, ""},
		{"watch * -A --exclude badrequest,forbidden,unavailable --until-synced --follow -o name", 0, 2, ""},
		{"watch robots -A --until-synced -o name --checkpoint " + filepath.Join(dir, "new.db"), 0, 2, ""},
		{"watch robots --checkpoint " + locked, 1, 0, `in use by yes: ?[31m`},
		{"watch badrequest", 1, 0, `\u202e`},
		{"watch forbidden", 1, 0, `\u202e`},
		{"watch unavailable --timeout 300ms", 0, 0, "trying again in"},
		{"watch badrequest,forbidden --follow --timeout 300ms", 0, 0, "failing, trying again: "},
		{"watch forbidden --follow --timeout 300ms", 0, 0, "forbidden in the namespace default: waiting: "},
		{"watch robots* -A -o json --timeout 300ms --exclude HOSTILE", 2, 0, ""},
		{"watch rbo", 1, 0, ""},
		{"watch HOSTILE*", 2, 0, ""},
		{"watch robots --HOSTILE", 2, 0, ""},
		{"watch robots --kubeconfig HOSTILE", 1, 0, ""},
		{"watch --help", 0, anyNumber, ""},
		{"HOSTILE", 2, 0, ""},
		{"resources", 0, 6, ""},
		{"resources -o wide", 0, 6, ""},
		{"resources -o name", 0, 5, ""},
		{"resources -o json", 0, 5, ""},
		{"checkpoint show " + path, 0, 2, ""},
		{"checkpoint show " + path + " -o wide", 0, 2, ""},
		{"checkpoint show " + path + " -o name", 0, 1, ""},
		{"checkpoint show " + path + " -o json", 0, 1, ""},
		{"checkpoint show " + path + " -o yaml", 0, anyNumber, ""},
		{"checkpoint show " + path + " pods", 1, 0, `it has yes: \u001b[31m`},
		{"checkpoint show " + locked, 1, 0, `in use by yes: ?[31m`},
		{"checkpoint reset " + path, 0, 1, ""},
	}
	for _, tt := range tests {
		args := strings.Fields(tt.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "HOSTILE", hostile)
		}
		if args[0] != "checkpoint" {
			args = append(args, "--server", url)
		}
		status, stdout, stderr := runTool(t, args...)
		checkSafe(t, tt.args, stdout)
		checkSafe(t, tt.args, stderr)
		lines := strings.Count(stdout, "\n")
		if status != tt.status || tt.lines >= 0 && lines != tt.lines || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%s: status %d, %d lines, want %d, %d, and %q on stderr\nstdout: %s\nstderr: %s",
				tt.args, status, lines, tt.status, tt.lines, tt.stderr, stdout, stderr)
		}
	}
}

// TestDocumentsRoundTrip parses what -o json and -o yaml print.
func TestDocumentsRoundTrip(t *testing.T) {
	odd, bare, list := event(stream.Modified), event(stream.Added), event(stream.Deleted)
	synced, gap := event(stream.Synced), event(stream.Gap)
	odd.Object, bare.Object.Object = oddObject("default"), map[string]any{"metadata": []any{}, "items": hostile}
	list.Object.Object = map[string]any{"kind": "List", "items": map[string]any{}, "metadata": nil}
	synced.ResourceVersion, gap.Gap.From, gap.Gap.Reason = hostile, hostile, stream.GapReason(hostile)
	events := []stream.Event{odd, bare, list, synced, gap}
	for _, format := range []string{"json", "yaml", "name", "", "wide"} {
		var stdout, stderr bytes.Buffer
		out := screen.New(&stdout, &stderr, nil)
		p := newPrinter(t, out.Out, out.ErrOut, format, true)
		var want, got []any
		for _, ev := range events {
			stdout.Reset()
			if err := p.print(ev, ack); err != nil {
				t.Fatalf("-o %s: %v", format, err)
			}
			checkSafe(t, format, stdout.String()+stderr.String())
			if regexp.MustCompile(`(?m)[ ](=|<<)(:|$)`).MatchString(stdout.String()) && format == "yaml" {
				t.Errorf("other readers of YAML interpret = and << without quotes:\n%s", stdout.String())
			}
			if format == "json" || format == "yaml" {
				whole, err := json.Marshal(newEventDocument(ev, time.Now(), printFlags{}, true))
				if err != nil {
					t.Fatal(err)
				}
				want, got = append(want, parse(t, whole)), append(got, parse(t, stdout.Bytes()))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-o %s (-want +got):\n%s", format, diff)
		}
	}
}

// An object that JSON can have and YAML can't, or neither, is printed with its identity: the run goes on.
func TestObjectsThatCannotBePrinted(t *testing.T) {
	const valid = `{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},"spec":{"n":1e400}}`
	deep := func(depth int) string {
		spec := strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
		return `{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},"spec":` + spec + "}"
	}
	for _, tt := range []struct {
		format, object string
		invalid        bool
	}{
		{"json", valid, false}, {"yaml", valid, true},
		{"json", valid[:len(valid)-1], true}, {"yaml", valid[:len(valid)-1], true},
		{"json", deep(9999), false}, {"yaml", deep(9999), true}, {"yaml", deep(6000), true},
		{"yaml", deep(4000), false},
	} {
		var stdout bytes.Buffer
		p := newPrinter(t, &stdout, io.Discard, tt.format, true)
		if err := p.print(stream.Event{Type: stream.Added, JSON: json.RawMessage(tt.object)}, ack); err != nil {
			t.Errorf("-o %s %.100s: %v", tt.format, tt.object, err)
		}
		if invalid := strings.Contains(stdout.String(), "invalid"); invalid != tt.invalid {
			t.Errorf("-o %s %.100s: invalid is %v, want %v: %.300s", tt.format, tt.object, invalid, tt.invalid, &stdout)
		}
		if !strings.Contains(stdout.String(), "name") {
			t.Errorf("-o %s %.100s: no name: %.300s", tt.format, tt.object, &stdout)
		}
	}
}

func parse(t *testing.T, document []byte) (v any) {
	t.Helper()
	if json.Valid(document) {
		_ = json.Unmarshal(document, &v)
	} else if err := yaml.Unmarshal(document, &v); err != nil {
		t.Errorf("%v in %q", err, document)
	}
	return v
}
