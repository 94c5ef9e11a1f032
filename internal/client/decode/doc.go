// Package decode decodes the JSON of lists and watches into the maps of unstructured objects, and PartialObjectMetadata
// from protobuf into the same maps. The results are those of apimachinery's decoders, several times faster.
//
// # What is the same
//
// What a [Decoder] accepts, apimachinery accepts (sigs.k8s.io/json, case-sensitive, with ints), with the same result:
//
//   - A number without a point or an exponent is an int64 if it fits, any other number a float64. -0 is the int64 0. A
//     number that is too large for a float64 is an error.
//   - Of several keys of one name the last wins.
//   - Invalid UTF-8, and half a surrogate pair, become U+FFFD.
//   - Only dropped managedFields are not checked, and what a [MetadataView] or a [Raw] need not look at: of an event
//     that is cut by its line end, not even brackets.
//
// The fuzz targets compare both decoders.
//
// A Decoder declines unusual input with [ErrDeclined], valid or not: Status and the other kinds that client-go decodes
// into structs, objects without a kind or with a key such as KIND, values nested deeper than 500, lists without items.
// The caller then uses client-go's decoder, so errors are client-go's.
//
// # Why it is fast
//
// It makes one pass where the dynamic client makes about ten: for the frame, the event, its kind, its object's kind and
// the object, and each of these checks the syntax before it decodes.
//
// It follows a trie of the keys that objects had before: each key notes what came next, and 19 of 20 keys of a pod, and
// four of ten values, are found by one comparison with that. Other keys and short values are looked up in a table, most
// as three words instead of byte by byte. What is found is not allocated again, nor is the interface value around it. A
// text gets its place in the table when it is seen twice, so names and times do not replace what all objects have. The
// table has at most 4096 places.
//
// The other strings of an object share blocks of at most 4 KiB, so one string keeps at most that in memory. A map is
// made in the size of the last map under the same key, and copied to a smaller one if that was far too large.
//
// More than half of the time goes into filling the maps (BenchmarkMaps). There is no unsafe code.
package decode
