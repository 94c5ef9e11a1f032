package decodetest

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// Random generates objects, lists and frames with the values of the cases, and breaks them.
type Random struct {
	*rand.Rand
	values []string
}

// NewRandom returns a Random that generates the same for the same seed.
func NewRandom(seed uint64) *Random {
	r := &Random{Rand: rand.New(rand.NewPCG(seed, 6))}
	for _, c := range Values() {
		if !c.Exotic && len(c.Text) < 200 {
			r.values = append(r.values, c.Text)
		}
	}
	return r
}

// words are ordinary keys. odd are keys that may have a meaning at the top of an object.
var (
	words = []string{"name", "managedFields", "annotations", "spec", "v1", "", long(20), long(24), long(25), long(64),
		long(65)}
	odd = []string{"é", "漢字", "\\ud800", "kind", "apiVersion", "items", "metadata", "Kind", "\\u006bind",
		"\\u212aind"}
)

func (r *Random) pick(from ...string) string { return from[r.IntN(len(from))] }

// often mostly returns the first text.
func (r *Random) often(first string, others ...string) string {
	if r.IntN(16) > 0 {
		return first
	}
	return r.pick(others...)
}

func (r *Random) value(depth int) string {
	switch n := r.IntN(6); {
	case n > 1 || depth > 5:
		return r.pick(r.values...)
	case n == 0:
		return r.object(depth + 1)
	}
	var items []string
	for range r.IntN(5) {
		items = append(items, r.value(depth+1))
	}
	return "[" + strings.Join(items, r.often(",", " , ", ",\n")) + "]"
}

// object returns an object that mostly has all of the fields, and others.
func (r *Random) object(depth int, fields ...string) string {
	for range r.IntN(6) {
		fields = append(fields, `"`+r.often(r.pick(words...), odd...)+`":`+r.value(depth))
	}
	switch r.IntN(20) {
	case 0:
		r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	case 1:
		fields = fields[len(fields)/2:]
	}
	return "{" + strings.Join(fields, r.often(",", ", ", "\n,\t")) + r.often("}", " }", "\r\n}")
}

// Object returns an object, mostly with an apiVersion and a kind.
func (r *Random) Object() []byte {
	return []byte(r.object(0, `"apiVersion":`+r.often(`"v1"`, `"apps/v1"`, `"a/b/c"`, `""`, `7`),
		`"kind":`+r.often(`"Thing"`, `"Status"`, `"ThingList"`, `null`),
		`"metadata":`+r.object(1, `"name":"n"`, `"managedFields":`+r.value(2))))
}

// List returns a list of such objects.
func (r *Random) List() []byte {
	var items []string
	for range r.IntN(5) {
		items = append(items, r.often(string(r.Object()), r.object(1), r.value(1)))
	}
	return []byte(r.object(0, `"kind":`+r.often(`"ThingList"`, `"List"`, `"Status"`, `""`),
		`"apiVersion":`+r.often(`"v1"`, `"a/b/c"`, `7`),
		`"items" : [`+strings.Join(items, r.often(",", " ,\n"))+`]`))
}

// Frame returns an event with such an object, and perhaps something after it.
func (r *Random) Frame() []byte {
	kind := r.often(r.pick("ADDED", "MODIFIED", "DELETED", "BOOKMARK"), "ERROR", "RENAMED")
	fields := []string{`"type":"` + kind + `"`, `"object": ` + string(r.Object())}
	if r.IntN(20) == 0 {
		fields = append(fields, fields[r.IntN(2)])
		slices.Reverse(fields)
	}
	after := r.pick("", "\n", "\r\n", "\n\n", `{"type":"ADDED"`, "x", "\x00")
	return []byte(r.often("{", "\n{ ") + strings.Join(fields, ",") + "}" + after)
}

// Mutate changes a few bytes.
func (r *Random) Mutate(data []byte) []byte {
	data = slices.Clone(data)
	for range 1 + r.IntN(3) {
		if len(data) == 0 {
			return data
		}
		i := r.IntN(len(data))
		j := min(len(data), i+1+r.IntN(8))
		switch r.IntN(6) {
		case 0:
			data[i] = byte(r.IntN(256))
		case 1:
			data[i] = `{}[]",:\u0-.eE ntf/`[r.IntN(19)]
		case 2:
			data = slices.Delete(data, i, j)
		case 3:
			data = slices.Insert(data, i, slices.Clone(data[i:j])...)
		case 4:
			data = slices.Insert(data, i, []byte(r.value(3))...)
		case 5:
			data = data[:i]
		}
	}
	return data
}
