package sequence

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/pace"
)

// A room is not given what belongs to another room: none of its fields leads there, nor the result of a function that
// it holds.
func TestRoomsHaveNoDoorBetweenThem(t *testing.T) {
	type types = []reflect.Type
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
		reach(tt.room, reached)
		for _, other := range append(tt.beyond, worker) {
			if reached[other] {
				t.Errorf("%v reaches %v: %s", tt.room, other, tt.why)
			}
		}
	}
	reached := map[reflect.Type]bool{}
	reach(worker, reached)
	for _, room := range slices.Concat(sends, waits, delivers, shares) {
		if !reached[room] {
			t.Errorf("the worker does not reach %v: nothing was checked about it", room)
		}
	}
}

// reach adds the types that a value of a type leads to, without those inside types of other modules.
func reach(of reflect.Type, reached map[reflect.Type]bool) {
	if reached[of] {
		return
	}
	reached[of] = true
	if of.Name() != "" && !strings.Contains(of.PkgPath(), "gvrwatch") {
		return
	}
	switch of.Kind() {
	case reflect.Struct:
		for i := range of.NumField() {
			reach(of.Field(i).Type, reached)
		}
	case reflect.Map:
		reach(of.Key(), reached)
		reach(of.Elem(), reached)
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
		reach(of.Elem(), reached)
	case reflect.Func:
		for i := range of.NumOut() {
			reach(of.Out(i), reached)
		}
	}
}
