package decode

// Object decodes an object. Around it there may be only white space.
func (d *Decoder) Object(data []byte) (map[string]any, error) {
	d.begin(data)
	m, i := d.object(d.space(0), d.drop, nil)
	if i >= 0 && d.space(i) != len(data) {
		i = d.fail(ErrDeclined)
	}
	return m, d.end(i)
}
