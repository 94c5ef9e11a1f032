// Package decodetest is what the fast decoder is compared with: client-go's own
// decoders, the inputs that tell decoders apart, and generators of more of them.
package decodetest
