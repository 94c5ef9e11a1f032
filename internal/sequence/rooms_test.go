package sequence

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A room has no name by which a line in it could reach what belongs to another room: no field, and no result of a
// function that it holds.
func TestRoomsHaveNoDoorBetweenThem(t *testing.T) {
	for _, tt := range []struct {
		room   any
		beyond []string
		why    string
	}{
		{delivery{}, []string{"Worker", "requests", "connection", "pacing", "Reader", "Watch", "Interface"},
			"what delivers an event sends no request, ends no watch and waits for nothing"},
		{requests{}, []string{"Worker", "delivery", "Progress", "Index", "pacing", "report"},
			"what sends a request does not know what was delivered, and decides nothing"},
		{pacing{}, []string{"Worker", "requests", "connection", "delivery", "Progress", "Index", "inbox"},
			"what says when does not know what"},
		{inbox{}, []string{"Worker", "requests", "connection", "delivery", "pacing", "report", "Target"},
			"what has arrived is only kept"},
		{report{}, []string{"Worker", "requests", "connection", "delivery", "pacing", "inbox", "Index", "Target"},
			"what is shown changes nothing"},
	} {
		room := reflect.TypeOf(tt.room)
		var reached []string
		reach(room, map[reflect.Type]bool{}, &reached)
		for _, name := range tt.beyond {
			if slices.Contains(reached, name) {
				t.Errorf("%s reaches %s: %s", room.Name(), name, tt.why)
			}
		}
		if !slices.Contains(reached, room.Name()) || len(reached) < 2 {
			t.Errorf("%s reaches %v: nothing was checked", room.Name(), reached)
		}
	}
}

// reach adds the names of all types that a value of a type leads to, without those inside types of other modules.
func reach(of reflect.Type, seen map[reflect.Type]bool, names *[]string) {
	if seen[of] {
		return
	}
	seen[of] = true
	*names = append(*names, of.Name())
	if of.Name() != "" && !strings.Contains(of.PkgPath(), "gvrwatch") {
		return // of another module
	}
	switch of.Kind() {
	case reflect.Struct:
		for i := range of.NumField() {
			reach(of.Field(i).Type, seen, names)
		}
	case reflect.Map:
		reach(of.Key(), seen, names)
		reach(of.Elem(), seen, names)
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
		reach(of.Elem(), seen, names)
	case reflect.Func:
		for i := range of.NumOut() {
			reach(of.Out(i), seen, names)
		}
	}
}
