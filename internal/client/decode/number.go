package decode

import "strconv"

// number returns the number that begins at i, as apimachinery does: an int64 if it has neither a point nor an exponent
// and fits, else a float64. under is its key.
func (p *parser) number(i int, under ref) (any, int) {
	end, float := p.in.digits(i)
	if end < 0 {
		return nil, end
	}
	token := p.in.data[i:end]
	found, place := p.table.find(token, numberText, nothing)
	p.table.entries[under].inner = found
	if found != nothing {
		return p.table.entries[found].boxed, end
	}
	v, end := p.parsed(token, float, end)
	if place != nil && v != nil {
		p.table.set(place, string(token), numberText, v)
	}
	return v, end
}

func (p *parser) parsed(token []byte, float bool, end int) (any, int) {
	if !float {
		if n, err := strconv.ParseInt(string(token), 10, 64); err == nil {
			return n, end
		}
	}
	f, err := strconv.ParseFloat(string(token), 64)
	if err != nil {
		return nil, p.in.fail(ErrDeclined) // too large for a float64
	}
	return f, end
}

// digits returns where the number that begins at i ends, and whether it has a point or an exponent.
func (in *input) digits(i int) (end int, float bool) {
	data := in.data
	if data[i] == '-' {
		i++
	}
	begin := i
	if i < len(data) && data[i] == '0' {
		i++
	} else if i = run(data, i); i == begin {
		return in.unexpected(i), false
	}
	if i < len(data) && data[i] == '.' {
		float, begin = true, i+1
		if i = run(data, begin); i == begin {
			return in.unexpected(i), false
		}
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		float = true
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		begin = i
		if i = run(data, begin); i == begin {
			return in.unexpected(i), false
		}
	}
	if i >= len(data) {
		return in.fail(ErrShort), false // more digits may follow
	}
	return i, float
}

// run returns where the digits that begin at i end.
func run(data []byte, i int) int {
	for i < len(data) && '0' <= data[i] && data[i] <= '9' {
		i++
	}
	return i
}
