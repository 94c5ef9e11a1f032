package streamtest

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// fault reads what follows the colon of a line about requests or frames.
func (p *parser) fault() (fault, error) {
	for _, k := range faultKinds {
		if k.arg == argStatus || !p.accept(k.kind) {
			continue
		}
		f, err := fault{faultKind: k}, error(nil)
		switch k.arg {
		case argCount:
			f.n, err = p.count()
		case argDuration:
			f.duration, err = p.duration()
		}
		if err == nil {
			err = p.end()
		}
		return f, err
	}
	return p.status()
}

func (p *parser) status() (fault, error) {
	f := fault{faultKind: faultKinds[0]}
	word := p.next()
	code, err := strconv.Atoi(word)
	if err != nil || code < 400 || code > 599 {
		return f, fmt.Errorf("%q is no fault: write a status code from 400 to 599, or one of %s", word,
			namesOf(func(k faultKind) bool { return k.arg != argStatus }))
	}
	f.code = code
	switch {
	case code == 410 && p.accept("Gone"):
		f.reason = metav1.StatusReasonGone
	case p.accept("plain"):
		f.plain = true
	case p.accept("retry-after"):
		f.retryAfter, err = p.seconds()
	case p.accept("in status"):
		f.inStatus = true
		f.retryAfter, err = p.seconds()
	}
	if err == nil {
		err = p.end()
	}
	return f, err
}

func (p *parser) seconds() (time.Duration, error) {
	d, err := p.duration()
	if err == nil && (d < time.Second || d%time.Second != 0) {
		err = fmt.Errorf("%s is not what a server can ask for: write whole seconds", d)
	}
	return d, err
}

const actionWords = "compact, rewind N, rewind N restart, restart, expire, delete crd, create crd, close watches, silence, " +
	"forbid VERB, forbid VERB in NAMESPACE, allow, allow VERB in NAMESPACE, unauthorized, authorized, " +
	"discovery down GROUP, discovery up GROUP, bookmarks every DURATION, bookmarks never, 410 in stream, 410 as status, 410 as close, heal"

// action reads what happens to the server at a time, or to these resources of it.
func (p *parser) action(resources []gvr.Resource) (action, error) {
	do, err := p.serverAction(resources)
	if do == nil && err == nil {
		do, err = p.resourceAction(resources)
	}
	if do == nil && err == nil {
		err = fmt.Errorf("%q is nothing that can happen at a time: write one of %s", p.peek(), actionWords)
	}
	if err == nil {
		err = p.end()
	}
	return do, err
}

func (p *parser) resourceAction(resources []gvr.Resource) (action, error) {
	switch {
	case p.accept("delete crd"):
		return func(s *Server) { s.deleteCRD(resources) }, nil
	case p.accept("create crd"):
		return func(s *Server) { s.createCRD(resources) }, nil
	case p.accept("expire"):
		return func(s *Server) { s.expire(resources) }, nil
	case p.accept("close watches"):
		return func(s *Server) { s.end(endClean, watchesAmong(resources)) }, nil
	case p.accept("silence"):
		return func(s *Server) { s.end(endSilent, watchesAmong(resources)) }, nil
	case p.accept("forbid"):
		return p.right(right{resources: resources})
	case p.accept("allow"):
		if len(p.words) == 0 && len(resources) == 0 {
			return func(s *Server) { s.rights = nil }, nil
		}
		return p.right(right{resources: resources, allowed: true})
	}
	return nil, nil
}

func (p *parser) right(r right) (action, error) {
	switch word := p.peek(); {
	case word == "all":
		p.next()
	case slices.Contains(everyVerb, word):
		r.verb = p.next()
	case word != "" || !r.allowed:
		return nil, fmt.Errorf("%q is no verb: write all, or one of %v", word, everyVerb)
	}
	if p.accept("in") {
		if r.namespace = p.next(); r.namespace == "" {
			return nil, fmt.Errorf("the namespace is missing: write in NAMESPACE")
		}
	}
	return func(s *Server) { s.rights = append(s.rights, r) }, nil
}

// serverAction reads what happens to all of the server.
func (p *parser) serverAction(resources []gvr.Resource) (action, error) {
	before := len(p.words)
	do, err := p.wholeServer()
	if err == nil && len(resources) > 0 && len(p.words) < before {
		err = fmt.Errorf("that happens to the whole server: leave the resource out")
	}
	return do, err
}

func (p *parser) wholeServer() (action, error) {
	switch {
	case p.accept("compact"):
		return func(s *Server) { s.store.compact(s.store.rev) }, nil
	case p.accept("rewind"):
		return p.rewind()
	case p.accept("restart"):
		return (*Server).restart, nil
	case p.accept("heal"):
		return (*Server).heal, nil
	case p.accept("unauthorized"):
		return func(s *Server) { s.unauthorized = true }, nil
	case p.accept("authorized"):
		return func(s *Server) { s.unauthorized = false }, nil
	case p.accept("discovery down"):
		return p.discovery(true)
	case p.accept("discovery up"):
		return p.discovery(false)
	case p.accept("410 in stream"):
		return func(s *Server) { s.expiredForm = "" }, nil
	case p.accept("410 as status"):
		return func(s *Server) { s.expiredForm = "status" }, nil
	case p.accept("410 as close"):
		return func(s *Server) { s.expiredForm = "close" }, nil
	case p.accept("bookmarks never"):
		return func(s *Server) { s.bookmarkEvery = 0 }, nil
	case p.accept("bookmarks every"):
		d, err := p.duration()
		if err == nil && d == 0 {
			err = fmt.Errorf("0s is too often: write bookmarks never for none")
		}
		return func(s *Server) { s.bookmarkEvery = d }, err
	}
	return nil, nil
}

func (p *parser) rewind() (action, error) {
	n, err := p.count()
	restart := p.accept("restart")
	return func(s *Server) {
		s.store.rewind(s.store.back(n))
		if restart {
			s.end(endClean, everyWatch)
			s.end(endReset, everyConn)
		}
	}, err
}

func (p *parser) discovery(down bool) (action, error) {
	group := p.next()
	if group == "" {
		return nil, fmt.Errorf("the group is missing: write discovery down GROUP, where core is the one without a name")
	}
	if group == "core" {
		group = ""
	}
	return func(s *Server) { s.downGroups[group] = down }, nil
}
