package gvrwatch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

const (
	on  = `status={"conditions":[{"type":"On","status":"True"}]}`
	off = `status={"conditions":[{"type":"On","status":"False"}]}`
)

// targetsOf returns targets: "lamp hall/red: condition=On, Chair hall/*: create, moons moon: delete".
func targetsOf(text string) (targets []condition.Target) {
	for _, one := range strings.Split(text, ", ") {
		name, text, _ := strings.Cut(one, ": ")
		resource, name, _ := strings.Cut(name, " ")
		t := condition.Target{For: condition.MustParse(text), Resource: resource, Name: name}
		if namespace, name, ok := strings.Cut(name, "/"); ok {
			t.Namespace, t.Name = namespace, name
		}
		t.Name = strings.TrimSuffix(t.Name, "*")
		targets = append(targets, t)
	}
	return targets
}

// TestConnectionWait: one call for objects of several types, by any of their names.
func TestConnectionWait(t *testing.T) {
	for _, tt := range []struct {
		why, targets string
		want         string   // the error; empty means that the conditions are met
		watched      []string // "GET path?fieldSelector"
	}{
		{"two types at the same moment", "lamp hall/red: condition=On, Chair hall/stool: create", "",
			[]string{"/chairs/hall metadata.name=stool", "/lamps/hall metadata.name=red"}},
		{"one type once", "lamps.example.com hall/red: condition=On, LampList hall/blue: condition=On=False", "",
			[]string{"/lamps/hall "}},
		{"in two namespaces", "lamps hall/red: condition=On, lamps attic/red: create",
			"create is not met by lamps.example.com attic/red: does not exist: time is up",
			[]string{"/lamps/attic metadata.name=red", "/lamps/hall metadata.name=red"}},
		{"every object of a namespace, and one that counts twice", "lamps hall/*: create, lamps hall/red: create",
			"", []string{"/lamps/hall "}},
		{"every object", "lamps *: condition=On, lamps hall/red: condition=On",
			"condition=On is not met by lamps.example.com hall/blue: condition On is False: time is up",
			[]string{"/lamps "}},
		{"what is not met of each", "lamp hall/blue: condition=On, chair hall/stool: delete, chair hall/none: delete",
			"condition=On is not met by lamps.example.com hall/blue: condition On is False; " +
				"delete is not met by chairs.example.com hall/stool: exists: time is up",
			[]string{"/chairs/hall ", "/lamps/hall metadata.name=blue"}},
		{"one version, named and not", "lamps hall/red: condition=On, lamps.v1.example.com hall/red: create", "",
			[]string{"/lamps/hall metadata.name=red"}},
		{"no objects", "lamps cellar/*: condition=On",
			"condition: cannot wait for condition=On of lamps.example.com cellar/*: no objects exist",
			[]string{"/lamps/cellar "}},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(lamps, chairs)
			defer srv.Close()
			srv.Put(lamps, "hall", "red", off)
			srv.Put(lamps, "hall", "blue", off)
			srv.Put(chairs, "hall", "stool")
			time.AfterFunc(time.Minute, func() { srv.Put(lamps, "hall", "red", on) })
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errors.New("time is up"))
			defer cancel()
			var got string
			if err := connect(t, srv).Wait(ctx, targetsOf(tt.targets)...); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
			var watched []string
			for _, r := range srv.Requests() {
				if r.Verb == "watch" {
					of, _, _ := strings.Cut(r.Resource, ".")
					of = strings.TrimRight("/"+of+"/"+r.Namespace, "/")
					watched = append(watched, of+" "+r.FieldSelector)
				}
			}
			slices.Sort(watched)
			if diff := cmp.Diff(tt.watched, slices.Compact(watched)); diff != "" {
				t.Errorf("%s, watches (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

// TestConnectionWaitErrors: what can't be watched is an error at once, and keeps its type.
func TestConnectionWaitErrors(t *testing.T) {
	errStopped := errors.New("stopped")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errStopped)
	for _, tt := range []struct {
		why, targets string
		ctx          context.Context
		want         func(error) bool
		begins       string // how the error begins
	}{
		{"a type that is not served", "tables hall/a: create", t.Context(), is[*discovery.NotFoundError],
			`gvrwatch: cannot wait for tables hall/a: the server serves no resource type "tables"`},
		{"no resource", " hall/a: create", t.Context(), is[*gvr.ParseError],
			`gvrwatch: cannot wait for hall/a: invalid resource type ""`},
		{"an invalid name", "chairs hall/a/b: create", t.Context(), is[*stream.OptionsError], "gvrwatch: invalid Name"},
		{"a type that may not be watched", "chairs hall/a: create, lamps hall/a: create", t.Context(),
			func(err error) bool { return is[*condition.UnmetError](err) && apierrors.IsForbidden(err) }, ""},
		{"a ctx that has ended", "chairs hall/a: create", ended,
			func(err error) bool { return errors.Is(err, errStopped) && !is[*condition.UnmetError](err) },
			"gvrwatch: cannot wait for chairs hall/a: stopped"},
		{"no ctx", "chairs hall/a: create", nil, is[*stream.OptionsError], "gvrwatch: invalid ctx: must not be nil"},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(lamps, chairs)
			defer srv.Close()
			srv.Put(chairs, "hall", "a")
			if err := srv.Apply("lamps any *: 403"); err != nil {
				t.Fatal(err)
			}
			err := connect(t, srv).Wait(tt.ctx, targetsOf(tt.targets)...)
			if !tt.want(err) || !strings.HasPrefix(err.Error(), tt.begins) {
				t.Errorf("%s: got %T, %v, want %s", tt.why, err, err, tt.begins)
			}
		})
	}
	var none *gvrwatch.Connection
	err := none.Wait(t.Context(), targetsOf("chairs hall/a: create")...)
	if want := "gvrwatch: invalid Connection: must be made with Connect"; err == nil || err.Error() != want {
		t.Errorf("a nil Connection: %v, want %s", err, want)
	}
}

// TestConnectionWaitRefusesTargets: what no object can be, and what would be watched twice, is an error before anything
// is requested but discovery. Otherwise a deletion that has not happened would count as done.
func TestConnectionWaitRefusesTargets(t *testing.T) {
	moons, lamps2 := resource("example.com", "moons", "Moon", "list", "watch"), lamps
	moons.Namespaced, lamps2.Version = false, "v2"
	const (
		clustered  = "must not have a namespace, because its resource is cluster-scoped"
		namespaced = "must have a namespace, because its resource is namespaced"
	)
	for _, tt := range []struct{ why, targets, target, problem string }{
		{"a namespace", "moons x/titan: delete", "moons.example.com x/titan", clustered},
		{"a namespace, beside a target without", "moons io: create, moons x/titan: delete", "moons.example.com x/titan",
			clustered},
		{"a namespace, before a target without", "moons x/titan: delete, moons io: create", "moons.example.com x/titan",
			clustered},
		{"every object of a namespace", "moons io: create, Moon x/*: delete", "moons.example.com x/*", clustered},
		{"not for a deletion only", "moons io: create, moons x/io: create", "moons.example.com x/io", clustered},
		{"no namespace", "chairs stool: delete", "chairs.example.com stool", namespaced},
		{"no namespace, beside a target with one", "chairs hall/stool: create, Chair stool: delete",
			"chairs.example.com stool", namespaced},
		{"two versions", "lamps.v1.example.com hall/red: create, lamps.v2.example.com hall/red: create",
			"lamps.example.com hall/red", "must be of the same version as another target, which is " +
				"lamps.v1.example.com, not lamps.v2.example.com"},
		{"two versions of two objects", "lamps.v2.example.com attic/red: create, moons io: create, " +
			"lamps.v1.example.com hall/red: delete", "lamps.example.com hall/red", "must be of the same version as " +
			"another target, which is lamps.v2.example.com, not lamps.v1.example.com"},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(moons, chairs, lamps, lamps2)
			defer srv.Close()
			srv.Put(moons, "", "io")
			srv.Put(moons, "", "titan")
			srv.Put(chairs, "hall", "stool")
			err := connect(t, srv).Wait(t.Context(), targetsOf(tt.targets)...)
			var got *stream.OptionsError
			if !errors.As(err, &got) {
				t.Fatalf("%s: got %T, %v", tt.why, err, err)
			}
			want := stream.OptionsError{Field: "targets", Value: tt.target, Problem: tt.problem}
			if diff := cmp.Diff(want, *got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
			for _, r := range srv.Requests() {
				if r.Verb == "list" || r.Verb == "watch" {
					t.Errorf("%s: a %s of %s was requested", tt.why, r.Verb, r.Resource)
				}
			}
		})
	}
}

// TestConnectionWaitCopiesTargets: the resolved names do not reach the caller's slice.
func TestConnectionWaitCopiesTargets(t *testing.T) {
	srv := streamtest.NewServer(chairs)
	defer srv.Close()
	srv.Put(chairs, "hall", "stool")
	targets := targetsOf("Chair hall/stool: create")
	if err := connect(t, srv).Wait(t.Context(), targets...); err != nil || targets[0].Resource != "Chair" {
		t.Errorf("%v, %s", err, targets[0])
	}
}
