package configmap

import "encoding/hex"

const uidLength = 16

// packUID returns the bytes of a UUID, if unpackUID makes the same text of them.
func packUID(text string) (b [uidLength]byte, ok bool) {
	if len(text) != 36 {
		return b, false
	}
	from := 0
	for _, part := range [...][2]int{{0, 8}, {9, 13}, {14, 18}, {19, 23}, {24, 36}} {
		n, err := hex.Decode(b[from:], []byte(text[part[0]:part[1]]))
		if err != nil {
			return b, false
		}
		from += n
	}
	var again [36]byte
	return b, string(appendUID(again[:0], b[:])) == text // capitals, and what is between
}

func unpackUID(b []byte) string {
	var text [36]byte
	return string(appendUID(text[:0], b))
}

func appendUID(text, b []byte) []byte {
	text = hex.AppendEncode(text, b[:4])
	for _, part := range [...][]byte{b[4:6], b[6:8], b[8:10], b[10:16]} {
		text = hex.AppendEncode(append(text, '-'), part)
	}
	return text
}
