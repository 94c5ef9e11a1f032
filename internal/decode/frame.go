package decode

// Frame tells where frames end, as far as brackets can tell: each is a JSON value,
// and what stands between them is white space. It is fed with bytes as they come,
// looks at each once, and can't be wrong about JSON.
type Frame struct {
	depth   int
	text    bool // within a string
	escaped bool // after a backslash there
	begun   bool
}

// Begun says whether something else than white space has come of the frame.
func (f *Frame) Begun() bool { return f.begun }

// End returns where the frame ends that has begun in data, or with it, and makes
// ready for the next one. It is negative if it does not end there.
func (f *Frame) End(data []byte) int {
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case f.escaped:
			f.escaped = false
		case f.text && c == '\\':
			f.escaped = true
		case f.text && c == '"':
			f.text = false
		case f.text:
			for i+1 < len(data) && data[i+1] != '"' && data[i+1] != '\\' {
				i++ // most of what there is
			}
		case c == '"':
			f.text, f.begun = true, true
		case c == '{' || c == '[':
			f.depth++
			f.begun = true
		case c == '}' || c == ']':
			f.depth--
			f.begun = true
		case c > ' ':
			f.begun = true
			continue // within a literal, or a list
		case !f.begun:
			continue
		}
		if f.begun && f.depth <= 0 && !f.text {
			*f = Frame{}
			return i + 1
		}
	}
	return -1
}
