package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

const widgets = "widgets." + group

func TestLines(t *testing.T) {
	object := func(kind, uid, version string) string {
		return `{"apiVersion":"chaos.example.com/v1","kind":"` + kind + `","metadata":{"namespace":"a","name":"n",` +
			`"uid":"` + uid + `","resourceVersion":"` + version + `","managedFields":[{}]}}`
	}
	of := func(kind Kind, uid types.UID, version string) report {
		return report{
			Run: 1, Kind: kind, Resource: widgets, Namespace: "a", Name: "n", UID: uid, ResourceVersion: version,
			Acked: true,
		}
	}
	inferred := func(r report) report { r.Inferred = true; return r }
	about := func(kind Kind, resource, version string) report {
		return report{Run: 1, Kind: kind, Resource: resource, ResourceVersion: version, Acked: true}
	}
	lost := about(gap, widgets, "")
	lost.Reason = reasonUnsaid
	full := about(gap, widgets, "")
	full.Namespace, full.Worker, full.Reason, full.From, full.HistoryLost = "a", "a", "expired", "4", true
	for _, test := range []struct {
		why        string
		lines      []string
		want       []report
		unreadable int
	}{
		{"a frame of a watch", []string{`{"type":"ADDED","object":` + object("Widget", "u", "5") + `}`},
			[]report{of(added, "u", "5")}, 0},
		{"the short form", []string{`{"type":"MODIFIED","resource":"widgets.chaos.example.com","namespace":"a",` +
			`"name":"n","uid":"u","resourceVersion":"5"}`}, []report{of(modified, "u", "5")}, 0},
		{"a resource with its version, and as a path", []string{
			`{"type":"SYNCED","resource":"widgets.v1.chaos.example.com","resourceVersion":"5"}`,
			`{"type":"SYNCED","resource":"apis/chaos.example.com/v1/widgets","resourceVersion":"6"}`,
		}, []report{about(synced, widgets, "5"), about(synced, widgets, "6")}, 0},
		{"resources that the judge does not have", []string{
			strings.ReplaceAll(`{"type":"ADDED","object":`+object("Policy", "u", "5")+`}`, group, "x.example.com"),
			`{"type":"CLIENT","resources":["nonsense.example.com"]}`, `{"type":"SYNCED","resource":"widgets"}`,
		}, nil, 3},
		{"a type in lower case", []string{
			`{"type":"added","object":` + object("Widget", "u", "5") + `}`, `{"type":"bookmark"}`,
		}, nil, 1},
		{"versions that etcd can't have", []string{
			`{"type":"SYNCED","resourceVersion":"null"}`, `{"type":"POSITION","resourceVersion":"-1"}`,
			`{"type":"ADDED","object":` + object("Widget", "u", "banana") + `}`,
		}, nil, 3},
		{"a deletion with a version of its own is exact", []string{
			`{"type":"ADDED","object":` + object("Widget", "u", "5") + `}`,
			`{"type":"DELETED","object":` + object("Widget", "u", "6") + `}`,
		}, []report{of(added, "u", "5"), of(deleted, "u", "6")}, 0},
		{"a deletion with the last state is not", []string{
			`{"type":"ADDED","object":` + object("Widget", "u", "5") + `}`,
			`{"type":"DELETED","object":` + object("Widget", "u", "5") + `}`,
		}, []report{of(added, "u", "5"), inferred(of(deleted, "u", "5"))}, 0},
		{"a deletion without a version is not either", []string{
			`{"type":"DELETED","object":` + object("Widget", "u", "") + `}`,
		}, []report{inferred(of(deleted, "u", ""))}, 0},
		{"what the client found out itself", []string{
			`{"type":"ADDED","inferred":true,"object":` + object("Widget", "u", "5") + `}`,
		}, []report{inferred(of(added, "u", "5"))}, 0},
		{"a GAP, as one writes it and as the tool does", []string{
			`{"type":"GAP","resource":"widgets.chaos.example.com"}`,
			`{"type":"GAP","resource":"widgets.v1.chaos.example.com","namespace":"a",` +
				`"gap":{"reason":"expired","from":"4","historyLost":true}}`,
		}, []report{lost, full}, 0},
		{"without a resource, all that the client watches", []string{
			`{"type":"CLIENT","resources":["widgets.chaos.example.com","apis/chaos.example.com/v1/globes"]}`,
			`{"type":"SYNCED"}`,
		}, []report{about(synced, widgets, ""), about(synced, "globes."+group, "")}, 0},
		{"a position", []string{`{"type":"POSITION","resource":"widgets.chaos.example.com","resourceVersion":"5"}`},
			[]report{about(committed, widgets, "5")}, 0},
		{"what the judge does not need", []string{
			`{"type":"BOOKMARK","object":` + object("Widget", "", "5") + `}`, `{"type":"HEARTBEAT"}`, `{}`, ``, `  `,
			`{"type":"HEARTBEAT","version":3,"object":[]}`,
		}, nil, 0},
		{"an object with a message of its own", []string{strings.ReplaceAll(
			`{"type":"ADDED","object":`+object("Widget", "u", "5")+`}`, `"metadata"`, `"message":{},"metadata"`)},
			[]report{of(added, "u", "5")}, 0},
		{"no JSON, half of it, and another shape", []string{
			`listing widgets`, `{"type":"ADDED","obj`, `[]`, `{"type":7}`, "\x00\xff",
		}, nil, 5},
		{"events of nothing", []string{
			`{"type":"ADDED"}`, `{"type":"ADDED","uid":"u"}`, `{"type":"ADDED","object":{}}`,
			`{"type":"ADDED","object":null}`,
			`{"type":"ADDED","resource":"widgets/x/y/z","uid":"u"}`, `{"type":"SYNCED","resource":"a b"}`,
			`{"type":"CLIENT","resources":["a b"]}`,
		}, nil, 7},
		{"objects without their namespace or version", []string{
			`{"type":"ADDED","resource":"widgets.chaos.example.com","name":"n","uid":"u","resourceVersion":"5"}`,
			`{"type":"ADDED","resource":"widgets.chaos.example.com","namespace":"a","name":"n","uid":"u"}`,
			`{"type":"DELETED","resource":"widgets.chaos.example.com","name":"n","uid":"u"}`,
		}, nil, 3},
	} {
		t.Run(test.why, func(t *testing.T) {
			l := newLineReader(newDefinitions().resources())
			var got []report
			for _, text := range test.lines {
				reports, err := l.read([]byte(text), time.Time{})
				if err != nil {
					t.Errorf("read %s: %v", text, err)
				}
				got = append(got, reports...)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if l.unreadable != test.unreadable || (l.problem != "") != (test.unreadable > 0) {
				t.Errorf("%d lines could not be read, the first: %q; want %d", l.unreadable, l.problem, test.unreadable)
			}
		})
	}
}

// TestClaimedResources: what a client claims stays as it is, whatever it has said SYNCED of.
func TestClaimedResources(t *testing.T) {
	l := newLineReader(newDefinitions().resources())
	for _, text := range []string{
		`{"type":"CLIENT","resources":["widgets.v1.chaos.example.com","apis/chaos.example.com/v1/globes"]}`,
		`{"type":"SYNCED","resource":"widgets.chaos.example.com"}`,
	} {
		if _, err := l.read([]byte(text), time.Now()); err != nil {
			t.Fatal(err)
		}
		l.unsynced()
	}
	want := [][]string{{widgets, "globes." + group}, {"globes." + group}}
	if diff := cmp.Diff(want, [][]string{l.client.Resources, l.unsynced()}); diff != "" {
		t.Error(diff)
	}
}

// TestGuessedResources: where the resources are not known, a kind has the plural that it would usually have.
func TestGuessedResources(t *testing.T) {
	text := `{"type":"ADDED","object":{"apiVersion":"x.example.com/v1","kind":"Policy",` +
		`"metadata":{"uid":"u","resourceVersion":"5"}}}`
	reports, err := newLineReader(nil).read([]byte(text), time.Now())
	if err != nil || len(reports) != 1 || reports[0].Resource != "policies.x.example.com" {
		t.Errorf("%v, %v", reports, err)
	}
}

func TestErrorLines(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"ERROR","message":"no route"}`:                              "no route",
		`{"type":"ERROR","object":{"kind":"Status","message":"too old"}}`:    "too old",
		`{"type":"ERROR","message":"` + strings.Repeat("x", 400) + `"}`:      strings.Repeat("x", 300),
		`{"type":"ERROR","object":{"kind":"Status","metadata":{},"code":1}}`: "",
	} {
		reports, err := newLineReader(nil).read([]byte(text), time.Time{})
		if err == nil || err.Error() != want || reports != nil {
			t.Errorf("%s: %v, %v; want the error %q", text, reports, err, want)
		}
	}
}

// FuzzLines reads anything, and what it makes reports of has what the judge needs.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"uid":"u"}}}`))
	f.Add([]byte(`{"type":"GAP","gap":null}` + "\n" + `{"type":"CLIENT","resources":["pods"],"strict":true}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l := newLineReader(newDefinitions().resources())
		reports, err := l.read(text, time.Time{})
		for _, r := range reports {
			if r.Resource == "" || r.Kind == "" {
				t.Errorf("%s made %+v", text, r)
			}
		}
		if json.Valid(text) || l.unreadable == 1 || err != nil {
			return
		}
		if len(strings.TrimSpace(string(text))) > 0 {
			t.Errorf("%q was neither read nor counted", text)
		}
	})
}
