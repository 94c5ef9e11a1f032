package decode

// ShareEach makes a Lister that shares its items hand them out one by one.
func (l *Lister) ShareEach() { l.shared.size = 1 }
