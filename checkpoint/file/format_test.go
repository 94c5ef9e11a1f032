package file_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// Each byte of a new file with one commit: what is written otherwise needs another format.
func TestFormat3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the commit is at midnight
		path := inTemp(t)
		d := at("k", "7")
		d.Identity.Shard, d.Partial, d.Rewound, d.Unclean = "s", true, true, true
		d.Put, d.Removed = odd[1:2], []checkpoint.Object{odd[3]}
		s := open(t, path)
		commit(t, s, d, checkpoint.Delta{Key: "none", Reset: true})
		closeStore(t, s)
		payload := of("k", `{"identity":{"cluster":{"uid":"c0ffee","address":"https://example.com:6443 sha256:1234"},`+
			`"group":"example.com","resource":"pods","storageVersionHash":"hash=","namespaces":["one","two"],`+
			`"labelSelector":"a=b","fieldSelector":"metadata.name=c","shard":"s"},"resourceVersions":{"one":"7"},`+
			`"partial":true,"rewound":true,"unclean":true,"committed":"2000-01-01T00:00:00Z"}`,
			of("one", "usual", "\x01\x00\x00\x00\x00\x00\x00\x40\x00\x80\x00\x00\x00\x00\x00\x00\x01", "\x00123456789",
				"one", "usual", "\x00pending", ""),
			"none", "", "",
			"none", `{"identity":{"cluster":{},"resource":""},"committed":"2000-01-01T00:00:00Z"}`, "")
		want := append(record("", 0), record(payload, uint64(len(payload)))[len(firstLine):]...)
		copy(want, front(len(want)))
		if diff := cmp.Diff(string(want), string(read(t, path))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// The file was written when format 3 was made. It is never replaced.
func TestEveryVersionReadsFormat3(t *testing.T) {
	path, content := inTemp(t), read(t, filepath.Join("..", "..", "testdata", "checkpoint-format-3.db"))
	if sum := fmt.Sprintf("%x", sha256.Sum256(content)); sum != frozenSum {
		t.Errorf("the file has the SHA-256 sum %s, want %s: it was replaced", sum, frozenSum)
	}
	write(t, path, content)
	got, err := attempt(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := diff(frozen(t, inTemp(t)), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const frozenSum = "4cd604f0107ec2e782ffd6288bf1ad9a1d7e5654892bcc2914414008e2d5e47a"

// frozen makes the same file, with other times.
func frozen(t testing.TB, path string) state {
	t.Helper()
	s := open(t, path)
	short := odd[:len(odd)-1]
	pods, widgets := at("pods", "100"), at("widgets.example.com", "101")
	pods.Put, widgets.Put = short, short[:3]
	widgets.Identity.Shard, widgets.Partial, widgets.Rewound, widgets.Unclean = "shard", true, true, true
	commit(t, s, pods, widgets, at("deleted", "1"))
	rewritten(t, s)
	if err := s.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	pods.Put, pods.Removed = nil, []checkpoint.Object{short[2], short[5]}
	pods.ResourceVersions = map[string]string{"one": "103", "two": ""}
	widgets.Put, widgets.Reset = short[1:2], true
	commit(t, s, pods, widgets)
	all, err := contents(s)
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return all
}
