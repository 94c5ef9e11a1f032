// Package decodetest has what package decode is compared with: client-go's decoders, inputs on which decoders differ,
// and generators of more inputs.
package decodetest

import (
	"fmt"
	"slices"
	"strings"
)

// Case is an input on which decoders are known to differ, or one at a limit.
type Case struct {
	Why  string
	Text string
	// Exotic says that package decode may decline the input: no server sends it, or it is invalid.
	Exotic bool
}

func usual(why, text string) Case  { return Case{Why: why, Text: text} }
func exotic(why, text string) Case { return Case{why, text, true} }

// long returns n bytes of text that does not repeat itself.
func long(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%x.", i)
	}
	return b.String()[:n]
}

func nested(depth int, inner string) string {
	return strings.Repeat("[", depth) + inner + strings.Repeat("]", depth)
}

func nestedMaps(depth int, inner string) string {
	return strings.Repeat(`{"n":`, depth) + inner + strings.Repeat("}", depth)
}

// Values returns values of a field.
func Values() []Case {
	return slices.Concat(numbers(), texts(), structures(), brokenValues(), lengths())
}

// Objects returns objects with each of the Values, and others.
func Objects() []Case {
	var cases []Case
	for _, c := range Values() {
		cases = append(cases, Case{c.Why + ", of a field", object(`"spec":{"v":` + c.Text + `,"after":1}`), c.Exotic})
		if len(c.Text) < 10<<10 {
			cases = append(cases, Case{c.Why + ", last", object(`"v":` + c.Text), c.Exotic})
		}
	}
	return append(cases, objects()...)
}

// Lists returns lists with each of the Objects as an item, and others.
func Lists() []Case {
	cases := lists()
	for _, c := range Objects() {
		cases = append(cases, Case{c.Why + ", as an item", list(c.Text + `,{"metadata":{"name":"after"}}`), c.Exotic})
	}
	return cases
}

// Frames returns events with each of the Objects, and others.
func Frames() []Case {
	cases := frames()
	for _, c := range Objects() {
		cases = append(cases, Case{c.Why + ", ADDED", frame("ADDED", c.Text), c.Exotic})
	}
	return cases
}

func object(rest string) string {
	return `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"n"},` + rest + `}`
}

func list(items string) string {
	return `{"apiVersion":"v1","kind":"ThingList","metadata":{"resourceVersion":"7"},"items":[` + items + `]}`
}

func frame(kind, object string) string {
	return `{"type":"` + kind + `","object":` + object + `}`
}
