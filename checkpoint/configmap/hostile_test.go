package configmap

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// allocated returns how many KiB f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 10
}

// A text of a ConfigMap is not compressed: it takes some 40 times its length at most.
func TestCheckpointTakesMemoryLikeItsText(t *testing.T) {
	many := func(from, each, to string, size int) string {
		var b strings.Builder
		b.WriteString(from)
		for i := 0; b.Len() < size-len(to); i++ {
			if strings.Contains(each, "%") {
				fmt.Fprintf(&b, each, i)
			} else {
				b.WriteString(each)
			}
		}
		return strings.TrimSuffix(b.String(), ",") + to
	}
	const rest = `"committed":"2026-01-02T03:04:05Z"}`
	for _, size := range []int{8 << 10, 1 << 20} {
		for _, text := range []string{
			many(`{"identity":{"resource":"x","namespaces":[`, `"",`, `]},`+rest, size),
			many(`{"identity":{"resource":"x"},"resourceVersions":{`, `"%x":"",`, `},`+rest, size),
			many(`{"identity":{"resource":"x"},"resourceVersions":{"":"`, `\n`, `"},`+rest, size),
			many("", "[", "", size), many("", `{"identity":`, "", size), many("", "1", "", size),
			many(`{"x`, "\x1b", `":1}`, size), many(`{"committed":"`, "\x7f", `"}`, size),
		} {
			var err error
			kib := allocated(func() { _, err = decode(text) })
			if kib > uint64(size>>10)*40 {
				t.Errorf("%.50s: %d KiB for %d", text, kib, size>>10)
			}
			if err != nil {
				isPrintable(t, err)
			}
		}
	}
}

func isPrintable(t *testing.T, err error) {
	t.Helper()
	text := err.Error()
	i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
	if i >= 0 || len(text) > 2000 {
		t.Errorf("%d bytes, or not printable at %d: %.100q", len(text), i, text)
	}
}

// No server keeps such a ConfigMap, but may send it, in any answer.
func TestGiantConfigMapIsRefused(t *testing.T) {
	const want = "invalid ConfigMap of more than 4194304 bytes"
	srv := newServer(t)
	commit(t, open(t, srv.Client(), "a"), delta("k", "5"))
	s := open(t, srv.Client(), "b")
	edit(t, srv, func(o *unstructured.Unstructured) {
		o.Object["binaryData"] = map[string]any{"x": strings.Repeat("x", maxSize)}
	})
	n := len(srv.Requests())
	_, err := Open(t.Context(), srv.Client(), "ns", "cp", nil)
	if e := (*checkpoint.CorruptError)(nil); !errors.As(err, &e) || len(srv.Requests()) != n+1 {
		t.Errorf("%v, or it was written to", err)
	}
	err = s.Commit(t.Context(), []checkpoint.Delta{delta("k", "6")})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("commit: %v, want %s", err, want)
	}
	small := make([]any, 1<<16)
	for i := range small {
		small[i] = map[string]any{}
	}
	for _, o := range []map[string]any{
		{strings.Repeat("x", maxSize): nil}, {"x": map[string]any{"y": small}}, {"x": make([]any, 1<<18)},
	} {
		if _, err := dataOf(&unstructured.Unstructured{Object: o}); err == nil || err.Error()[:len(want)] != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// The other owner chooses its name, and a person may have edited the ConfigMap.
func TestErrorsAreShortAndPrintable(t *testing.T) {
	evil := strings.Repeat("\x1b[2J\u202e\n\x7f\xff", 1000)
	data := func(name, text string) func(o *unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { o.Object["data"].(map[string]any)[name] = text }
	}
	for _, change := range []func(o *unstructured.Unstructured){
		data("format", evil), data("owner", evil), data("owner", `{"`+evil+`":1}`), data("checkpoint.k", evil),
		data("checkpoint.k", `{"`+strings.Repeat(`\u001b`, 5000)+`":1}`),
		func(o *unstructured.Unstructured) {
			o.Object["data"].(map[string]any)["x"] = map[string]any{evil: evil}
		},
	} {
		srv := newServer(t)
		commit(t, open(t, srv.Client(), "a"), delta("k", "5"))
		edit(t, srv, change)
		s, err := Open(t.Context(), srv.Client(), "ns", "cp", nil)
		if err == nil {
			_, err = s.Load(t.Context(), "k")
		}
		if err == nil {
			t.Fatal("no error")
		}
		isPrintable(t, err)
	}
	srv := newServer(t)
	s := open(t, srv.Client(), "a")
	open(t, srv.Client(), evil)
	err := s.Commit(t.Context(), []checkpoint.Delta{delta("k", "6")})
	var fenced *checkpoint.FencedError
	if !errors.As(err, &fenced) || len(fenced.Holder) > 1<<10 {
		t.Fatalf("%.100q", fmt.Sprint(err))
	}
	isPrintable(t, err)
}
