package tables

// Key returns the key of the cells.
func Key(t *Tables) string { return t.key }
