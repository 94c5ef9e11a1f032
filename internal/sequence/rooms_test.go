package sequence

import (
	"reflect"
	"slices"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/pace"
)

// doors are the fields of rooms, and of what they have, through which more can be reached than their types say.
var doors = map[string]string{
	"requests.knows":      "Index.HasName, for the filter",
	"requests.buffered":   "Progress.WritesAhead, for client.Hints",
	"requests.reader":     "the client of one resource",
	"connection.watch":    "the open watch",
	"connection.cancel":   "ends the watch",
	"pageAhead.cancel":    "ends a request",
	"delivery.door":       "Emit and Turn, of the caller",
	"pacing.between":      "random numbers",
	"report.changed":      "Hooks.StatusChanged",
	"report.objects":      "Index.Len",
	"Target.Config":       "functions of the caller's options, and the errors that the caller sees",
	"answer.err":          "an error",
	"attempt.result":      "a value",
	"answer.panicked":     "the value of a panic",
	"health.cause":        "an error",
	"Status.Cause":        "an error",
	"Request.Err":         "an error",
	"typeMeta.apiVersion": "a string",
	"typeMeta.kind":       "a string",
	"Worker.state":        "a value",
	"Run.Client":          "only the Worker has the Run",
	"Run.Workers":         "only the Worker has the Run",
}

// A room is not given what belongs to another room: none of its fields leads there, nor a function or an interface but
// those of doors.
func TestRoomsHaveNoDoorBetweenThem(t *testing.T) {
	type types = []reflect.Type
	met := map[string]bool{}
	worker, sends := reflect.TypeFor[Worker](), types{
		reflect.TypeFor[requests](), reflect.TypeFor[connection](), reflect.TypeFor[client.Reader](),
		reflect.TypeFor[client.Watch](), reflect.TypeFor[dynamic.Interface](),
	}
	waits := types{reflect.TypeFor[pacing](), reflect.TypeFor[pace.Client]()}
	delivers := types{reflect.TypeFor[delivery](), reflect.TypeFor[index.Index](), reflect.TypeFor[acks.Progress]()}
	shares := types{reflect.TypeFor[inbox](), reflect.TypeFor[report]()}
	for _, tt := range []struct {
		room   reflect.Type
		beyond types
		why    string
	}{
		{reflect.TypeFor[delivery](), slices.Concat(sends, waits),
			"what delivers an event sends no request, ends no watch and waits for no server"},
		{reflect.TypeFor[requests](), slices.Concat(delivers, waits, shares[1:]),
			"what sends a request does not decide what is delivered"},
		{reflect.TypeFor[pacing](), slices.Concat(sends, delivers, shares[:1]), "what says when does not know what"},
		{reflect.TypeFor[inbox](), slices.Concat(sends, delivers, waits, shares[1:]), "what has arrived is only kept"},
		{reflect.TypeFor[report](), slices.Concat(sends, delivers, waits, shares[:1]), "what is shown is only kept"},
	} {
		reached := map[reflect.Type]bool{}
		reach(t, "", tt.room, reached, met)
		for _, other := range append(tt.beyond, worker, reflect.TypeFor[Run]()) {
			if reached[other] {
				t.Errorf("%v reaches %v: %s", tt.room, other, tt.why)
			}
		}
	}
	reached := map[reflect.Type]bool{}
	reach(t, "", worker, reached, met)
	for _, room := range slices.Concat(sends, waits, delivers, shares) {
		if !reached[room] {
			t.Errorf("the worker does not reach %v: nothing was checked about it", room)
		}
	}
	for at := range doors {
		if !met[at] {
			t.Errorf("%s is no door any more", at)
		}
	}
}

// reach adds the types that a value leads to, without what is inside those of other packages, and the doors that it
// meets. at names the field of a type of this package.
func reach(t *testing.T, at string, of reflect.Type, reached map[reflect.Type]bool, met map[string]bool) {
	if of.Kind() == reflect.Func || of.Kind() == reflect.Interface {
		if met[at] = true; doors[at] == "" {
			t.Errorf("%s is a door that nobody has given a reason for", at)
		}
	}
	if reached[of] {
		return
	}
	reached[of] = true
	own := of.PkgPath() == reflect.TypeFor[Worker]().PkgPath()
	if of.Name() != "" && !own {
		return
	}
	switch of.Kind() {
	case reflect.Struct:
		for i := range of.NumField() {
			at := at
			if own && doors[at] == "" {
				at = of.Name() + "." + of.Field(i).Name
			}
			reach(t, at, of.Field(i).Type, reached, met)
		}
	case reflect.Map:
		reach(t, at, of.Key(), reached, met)
		reach(t, at, of.Elem(), reached, met)
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
		reach(t, at, of.Elem(), reached, met)
	}
}
