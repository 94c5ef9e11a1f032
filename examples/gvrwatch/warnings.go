package main

import (
	"io"
	"sync"

	"k8s.io/client-go/rest"
)

// warningPrinter writes the server's warnings to stderr, as kubectl does:
//
//	Warning: v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice
//
// It writes each once, although each request for a list or a watch has it again.
type warningPrinter struct {
	w       io.Writer
	mu      sync.Mutex
	printed map[string]bool
}

var _ rest.WarningHandler = &warningPrinter{}

// HandleWarningHeader is called for each header of an answer. A server chooses the texts, so they are bounded.
func (p *warningPrinter) HandleWarningHeader(code int, _, text string) {
	const miscellaneous, most = 299, 100
	if code != miscellaneous || text == "" {
		return
	}
	text = shorten(text, 1<<10)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.printed[text] || len(p.printed) > most {
		return
	}
	if p.printed == nil {
		p.printed = map[string]bool{}
	}
	p.printed[text] = true
	if len(p.printed) > most {
		text = "the server has more warnings, which are not shown"
	}
	printLine(p.w, "Warning:", text)
}
