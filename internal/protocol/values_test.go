package protocol

import "testing"

// States are values: two Steps from one State do not influence each other.
func TestStatesAreValues(t *testing.T) {
	s := Start(Rules{}, Beginning{})
	for _, token := range []string{"a", "b", "c"} {
		s, _ = Step(s, Page{Version: "5", Token: token})
	}
	one, _ := Step(s, Page{Version: "5", Token: "d"})
	two, _ := Step(s, Page{Version: "5", Token: "e"})
	if got := one.(Listing).Token(); got != "d" {
		t.Errorf("the first next State reads page %q, want d; the second one reads %q", got, two.(Listing).Token())
	}
}

// The driver may skip events only where each of them is known to be news or not.
func TestMaySkipOnlyWhereNewsIsKnown(t *testing.T) {
	for _, tt := range []struct {
		s    Streaming
		want bool
		why  string
	}{
		{Streaming{Memory: synced("5")}, true, "the index knows every object"},
		{Streaming{Memory: synced("5", partial)}, false, "after a start at a version, an unknown object may be news"},
		{Streaming{Memory: synced("5"), unversioned: true}, false, "the version can't say what has been skipped"},
	} {
		if got := tt.s.MaySkip(); got != tt.want {
			t.Errorf("%s: got %v", tt.why, got)
		}
	}
}

// Only an event that the server can't send, or that can't be read, is skipped after it recurs.
func TestOnlyUnreadableOrUnsendableIsPoisonous(t *testing.T) {
	for _, tt := range []struct {
		f    Failure
		want bool
		why  string
	}{
		{Failure{Class: Unreadable}, true, "it can't be decoded"},
		{Failure{Class: ServerError}, true, "the server fails to send it"},
		{Failure{Class: NotImplemented}, true, "so does any code from 500"},
		{Failure{Class: ServerError, RetryAfter: 1}, false, "the server asks to come back later"},
		{Failure{Class: NotImplemented, RetryAfter: 1}, false, "so it does with any code"},
		{Failure{Class: Transient}, false, "the connection broke"},
		{Failure{Class: Expired}, false, "the version is at fault"},
	} {
		if got := tt.f.poisonous(); got != tt.want {
			t.Errorf("%s: got %v", tt.why, got)
		}
	}
}
