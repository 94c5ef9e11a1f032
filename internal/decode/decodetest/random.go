package decodetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Random writes JSON as no server does: values of all kinds, oddly spelled. Its
// strings come from few, so that they repeat, and differ little.
type Random struct {
	*rand.Rand
	words []string
}

// NewRandom returns one that writes the same for the same seed.
func NewRandom(seed uint64) *Random {
	r := &Random{Rand: rand.New(rand.NewPCG(seed, 6))}
	for range 40 {
		word := []byte(long(r.IntN(80)))
		for range r.IntN(4) {
			if len(word) > 0 {
				word[r.IntN(len(word))] = "abcé\xff\"\\/\n\x00<"[r.IntN(12)]
			}
		}
		r.words = append(r.words, string(word), string(word)+"x")
	}
	r.words = append(r.words, "kind", "Kind", "apiVersion", "apiversion", "items", "metadata", "managedFields", "spec", "status", "name", "annotations", "v1", "a/b", "Thing", "ThingList", "List", "Status", "", "é", "漢字", "🚀", "\u212aind")
	return r
}

// Object is an object, mostly one that says what it is.
func (r *Random) Object() []byte {
	if r.IntN(20) == 0 {
		return []byte(r.value(0))
	}
	var fields []string
	add := func(odds int, key string, value func() string) {
		for range 2 { // seldom twice
			if r.IntN(100) < odds {
				fields = append(fields, r.space()+r.spelled(key, 97)+r.space()+":"+r.space()+value()+r.space())
			}
			odds = 2
		}
	}
	odd := func(value string) func() string {
		return func() string {
			if r.IntN(60) == 0 {
				return r.value(3)
			}
			return r.spelled(value, 95)
		}
	}
	add(95, "apiVersion", odd(r.often("v1", "apps/v1", "a/b/c", "/", "", "g/")))
	add(95, "kind", odd(r.often("Thing", "ThingList", "Status", "WatchEvent", "", "List")))
	add(90, "metadata", func() string { return r.fields(1, "name", "managedFields", "annotations", "labels", "uid") })
	add(70, "spec", func() string { return r.value(1) })
	add(50, "status", func() string { return r.value(1) })
	add(3, "items", func() string { return r.value(1) })
	add(1, "Kind", func() string { return r.value(3) })
	add(1, "apiversion", func() string { return r.value(3) })
	add(20, r.word(), func() string { return r.value(1) })
	if r.IntN(3) == 0 {
		r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	}
	return []byte(r.space() + "{" + strings.Join(fields, ",") + "}" + r.space())
}

// List is a list of such objects.
func (r *Random) List() []byte {
	var items []string
	for range r.IntN(5) {
		item := string(r.Object())
		if r.IntN(3) == 0 {
			item = r.fields(1, "metadata", "spec", "kind")
		}
		items = append(items, item)
	}
	fields := []string{
		r.spelled("kind", 95) + ":" + r.often(`"ThingList"`, `"List"`, `"Status"`, `""`, r.value(3)),
		r.spelled("apiVersion", 95) + ":" + r.often(`"v1"`, `"g/v1"`, `"a/b/c"`, `""`, r.value(3)),
		r.spelled("items", 95) + r.space() + ":" + r.space() + "[" + strings.Join(items, r.space()+","+r.space()) + "]",
		`"metadata":` + r.fields(1, "resourceVersion", "continue"),
	}
	if r.IntN(10) == 0 {
		fields = append(fields, r.spelled(r.word(), 90)+":"+r.value(1))
	}
	if r.IntN(3) == 0 {
		r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	}
	return []byte(r.space() + "{" + strings.Join(fields[r.IntN(20)/19:], r.space()+",") + "}" + r.space())
}

// Frame is an event with such an object, and perhaps something after it.
func (r *Random) Frame() []byte {
	kind := r.spelled(r.often("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "RENAMED"), 98)
	fields := []string{r.spelled("type", 98) + r.space() + ":" + r.space() + kind, r.space() + r.spelled("object", 98) + ":" + string(r.Object())}
	switch r.IntN(40) {
	case 0:
		slices.Reverse(fields)
	case 1:
		fields = append(fields, r.spelled(r.word(), 90)+":"+r.value(2))
	case 2:
		fields = fields[:1]
	case 3:
		fields = append(fields, fields[r.IntN(2)])
	}
	return []byte(r.space() + "{" + strings.Join(fields, ",") + "}" + r.pick("", "\n", "\r\n", "\n\n", `{"type":"ADDED"`, "x", "\x00"))
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

func (r *Random) pick(from ...string) string { return from[r.IntN(len(from))] }

// often is mostly the first of them.
func (r *Random) often(from ...string) string {
	if r.IntN(6) > 0 {
		return from[0]
	}
	return r.pick(from...)
}

func (r *Random) word() string { return r.words[r.IntN(len(r.words))] }

func (r *Random) space() string {
	if r.IntN(8) > 0 {
		return ""
	}
	return r.pick(" ", "\n", "\t", "\r", "  \r\n", strings.Repeat(" ", 17))
}

func (r *Random) value(depth int) string {
	n := r.IntN(10)
	if depth > 6 {
		n %= 6
	}
	switch n {
	case 0, 1, 2:
		return r.spelled(r.word(), 60)
	case 3, 4:
		return r.number()
	case 5:
		return r.pick("true", "false", "null")
	case 6, 7:
		return r.fields(depth, "a", "b", "name")
	default:
		var items []string
		for range r.IntN(5) {
			items = append(items, r.space()+r.value(depth+1)+r.space())
		}
		return "[" + r.space() + strings.Join(items, ",") + "]"
	}
}

func (r *Random) fields(depth int, keys ...string) string {
	var fields []string
	for range r.IntN(6) {
		key := r.word()
		if r.IntN(2) == 0 {
			key = r.pick(keys...)
		}
		fields = append(fields, r.space()+r.spelled(key, 80)+r.space()+":"+r.space()+r.value(depth+1)+r.space())
	}
	return "{" + r.space() + strings.Join(fields, ",") + "}"
}

func (r *Random) number() string {
	switch r.IntN(7) {
	case 0:
		return strconv.Itoa(r.IntN(20) - 5)
	case 1:
		return strconv.FormatInt(int64(r.Uint64())>>r.IntN(64), 10)
	case 2:
		return strconv.FormatUint(r.Uint64(), 10)
	case 3:
		return strconv.FormatFloat(r.NormFloat64(), "efgEG"[r.IntN(5)], r.IntN(20)-1, 64)
	case 4:
		return fmt.Sprintf("%d.%de%d", r.IntN(100), r.IntN(1000), r.IntN(700)-350)
	case 5:
		return r.pick("-0", "0", "-0.0", "1e3", "1E+2", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1e308", "5e-324", "0e99999")
	default:
		if r.IntN(40) == 0 {
			return r.pick("01", "1.", ".5", "+1", "1e999", "-", "NaN")
		}
		return strconv.Itoa(r.IntN(1000))
	}
}

// spelled is a string in JSON; plainly in so many of a hundred cases.
func (r *Random) spelled(s string, plainly int) string {
	var b strings.Builder
	b.WriteByte('"')
	plain := r.IntN(100) < plainly
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ', !plain && r.IntN(4) == 0 && c < 0x10000:
			fmt.Fprintf(&b, r.pick(`\u%04x`, `\u%04X`), c)
		case !plain && r.IntN(12) == 0:
			b.WriteString(r.pick(`\n`, `\/`, `\ud83d`, `\ude00`, `\ud83d\ude00`, "\xff", "\xe4\xb8", "é", `\u0000`) + s[i:i+size])
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	b.WriteByte('"')
	return b.String()
}
