package decode

// pruned is what is left out of an object: by key, and below a key. Nil leaves
// nothing out.
type pruned struct {
	keys map[string]*pruned // nil where all of it is left out
	only map[string]bool    // what is kept, if not nil
}

func prune(o Options) *pruned {
	if len(o.Drop) == 0 && !o.MetadataOnly {
		return nil
	}
	root := &pruned{keys: map[string]*pruned{}}
	if o.MetadataOnly {
		root.only = map[string]bool{"apiVersion": true, "kind": true, "metadata": true}
	}
	for _, path := range o.Drop {
		root.add(path)
	}
	return root
}

// pruneMetadata is what is left out of the metadata alone, and the managedFields.
func pruneMetadata(o Options) *pruned {
	p := &pruned{keys: map[string]*pruned{"managedFields": nil}}
	for _, path := range o.Drop {
		if path[0] == "metadata" && len(path) > 1 {
			p.add(path[1:])
		}
	}
	return p
}

func (p *pruned) add(path []string) {
	below, ok := p.keys[path[0]]
	switch {
	case len(path) == 1:
		p.keys[path[0]] = nil
		return
	case ok && below == nil:
		return // it is left out already
	case !ok:
		below = &pruned{keys: map[string]*pruned{}}
		p.keys[path[0]] = below
	}
	below.add(path[1:])
}

// at says what is left out below a key, or whether it is all of that.
func (p *pruned) at(key string) (below *pruned, all bool) {
	if p == nil {
		return nil, false
	}
	if p.only != nil && !p.only[key] {
		return nil, true
	}
	below, ok := p.keys[key]
	return below, ok && below == nil
}
