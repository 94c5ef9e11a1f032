package size

// mostSteps bounds the evaluation of recursive descents: a step takes up to 24 bytes of memory.
const mostSteps = 8 << 20

// TooDeep reports whether client-go (util/jsonpath) would take more than about 200 MB of memory to evaluate a JSONPath
// with n recursive descents (..) on a value that was decoded from JSON. It copies each result once for each level
// above, and each further descent begins at each result of the one before.
func TooDeep(v any, n int) bool { return n > 0 && steps(v, 0, n) > mostSteps }

func steps(v any, depth, n int) (count float64) {
	count = chains(depth, n)
	switch v := v.(type) {
	case map[string]any:
		for _, v := range v {
			count += steps(v, depth+1, n)
		}
	case []any:
		for _, v := range v {
			count += steps(v, depth+1, n)
		}
	case string: // whose bytes are results of a descent, too, but lead nowhere
		count += float64(len(v)) * chains(depth, n-1)
	}
	return count
}

// chains returns in how many ways n descents lead to a value at a depth, which may be infinite: n values, each the next
// one or within it, may be chosen on the way.
func chains(depth, n int) float64 {
	ways := 1.0
	for i := 1; i <= n; i++ {
		ways *= float64(depth+i) / float64(i)
	}
	return ways
}
