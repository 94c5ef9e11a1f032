// Package decode turns the JSON of lists and watches into the maps that
// unstructured objects are made of, with the results of apimachinery's decoder and
// several times faster.
//
// # What is the same
//
// What it accepts, apimachinery accepts (sigs.k8s.io/json, case-sensitive, ints
// kept), and makes the same of it: a number without a point and without an
// exponent that fits is an int64, every other a float64; -0 is int64 0; one too
// large for a float64 is an error; the last of several keys of one name wins; what
// is no UTF-8, and half a surrogate pair, becomes U+FFFD. Only what managedFields hold
// that are dropped is not checked. The fuzz targets compare both.
//
// What it does not like it refuses, with ErrUnlike, whether it is right or wrong:
// Status and the other kinds that client-go makes structs of, kinds that are
// missing or written KIND, values nested deeper than 500, lists without items. Its
// caller asks client-go's decoder then, so that errors are client-go's.
//
// # Why it is fast
//
// It is one pass where the dynamic client makes about ten: framing, the event, its
// kind, its object's kind, and the object, each of which checks the syntax before
// it decodes. Keys and short values that come again are looked up and not made anew,
// also their boxes, most of them as three words instead of byte by byte; a place in
// that table has to be earned by coming twice, so that names and times don't drive
// out the rest, and it never grows. The strings that remain share one allocation for
// each object, of at most 4 KiB: that is what one of them may keep in memory. Maps
// are made in the size that the last one under the same key had, and smaller if that
// was far too much.
//
// A pod of 2.3 KB takes 13 us and 109 allocations; goccy/go-json takes 17 us and 323,
// bytedance/sonic 22 us and 330, sigs.k8s.io/json 33 us and 346, encoding/json 36 us
// and 343 (medians of three runs on one machine, Go 1.26, amd64, 2026-11). More than
// half of the 13 us is to fill the maps (BenchmarkMaps). There is no unsafe code.
package decode
