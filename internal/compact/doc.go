// Package compact keeps an object in one block of memory: a [Record] has what is asked without decoding the object, and
// the object as text, which a [Codec] compresses. Package store and the compact informers of package informer keep
// their objects so. It knows neither what the text means, but for [AppendJSON], nor where records are kept.
package compact
