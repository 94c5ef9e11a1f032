package streamtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// ScriptError reports a line that the server can't follow.
type ScriptError struct {
	Line   int    // from 1
	Text   string // of the line
	Reason string // what is wrong with it and what would be right
}

func (e *ScriptError) Error() string {
	return fmt.Sprintf("line %d of the script, %q: %s", e.Line, e.Text, e.Reason)
}

// Apply adds the lines of a script to what the server has in store. It counts
// requests, and time, from here on. If there is a line that it can't follow, it
// does nothing, and returns a *ScriptError. The language is that of the package's
// documentation.
func (s *Server) Apply(script string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	var apply []func()
	for i, line := range strings.Split(script, "\n") {
		text, _, _ := strings.Cut(line, "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		p := &parser{known: s.known}
		do, err := p.line(s, text)
		if err != nil {
			return &ScriptError{Line: i + 1, Text: text, Reason: err.Error()}
		}
		apply = append(apply, do)
	}
	for _, do := range apply {
		do()
	}
	s.runDue()
	return nil
}

// Do does now what a line of a script would do at a time: "compact", "rewind 3",
// "widgets delete crd". The error is a *ScriptError.
func (s *Server) Do(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	p := &parser{known: s.known, words: strings.Fields(what)}
	do, err := p.action(p.resource())
	if err != nil {
		return &ScriptError{Line: 1, Text: what, Reason: err.Error()}
	}
	do(s)
	s.wake()
	return nil
}

// parser reads the words of one line.
type parser struct {
	known []gvr.Resource
	words []string
}

func (p *parser) peek() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

func (p *parser) next() string {
	word := p.peek()
	if word != "" {
		p.words = p.words[1:]
	}
	return word
}

// accept takes these words, if they come next.
func (p *parser) accept(words string) bool {
	want := strings.Fields(words)
	if len(p.words) < len(want) || !slices.Equal(p.words[:len(want)], want) {
		return false
	}
	p.words = p.words[len(want):]
	return true
}

func (p *parser) end() error {
	if len(p.words) > 0 {
		return fmt.Errorf("%q is too much", strings.Join(p.words, " "))
	}
	return nil
}

// resource takes the name of resources, if one comes next.
func (p *parser) resource() []gvr.Resource {
	var found []gvr.Resource
	for _, r := range p.known {
		if word := p.peek(); word == r.GroupVersionResource.Resource || word == r.String() || word == r.GroupResource().String() {
			found = append(found, r)
		}
	}
	if len(found) > 0 {
		p.next()
	}
	return found
}

func (p *parser) duration() (time.Duration, error) {
	word := p.next()
	d, err := time.ParseDuration(word)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration: write one such as 3s or 1m30s", word)
	}
	return d, nil
}

func (p *parser) count() (int, error) {
	word := p.next()
	n, err := strconv.Atoi(word)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a count: write a number from 1", word)
	}
	return n, nil
}

var classes = map[string]class{
	"list": classList, "page": classPage, "probe": classProbe, "watch": classWatch, "initial": classInitial,
	"get": classGet, "write": classWrite, "discovery": classDiscovery, "any": anyOf,
}

func (p *parser) line(s *Server, text string) (func(), error) {
	trigger, what, ok := strings.Cut(text, ":")
	if !ok {
		return nil, fmt.Errorf("there is no colon: write TRIGGER: FAULT")
	}
	p.words = strings.Fields(trigger)
	resources := p.resource()
	word := p.next()
	on, isRequest := classes[word]
	switch {
	case word == "at":
		return p.timed(s, resources, what)
	case word == "change":
		return p.poison(s, what)
	case isRequest:
		return p.rule(s, rule{on: on, resources: resources}, what)
	}
	return nil, fmt.Errorf("%q is neither a resource of this server nor a trigger: write at DURATION, change REVISION, or one of %s and which of them, as in list 1",
		word, strings.Join(slices.Sorted(maps.Keys(classes)), ", "))
}

func (p *parser) timed(s *Server, resources []gvr.Resource, what string) (func(), error) {
	d, err := p.duration()
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return nil, err
	}
	p.words = strings.Fields(what)
	if len(resources) == 0 {
		resources = p.resource()
	}
	do, err := p.action(resources)
	if err != nil {
		return nil, err
	}
	return func() { s.schedule(time.Now().Add(d), true, func() { do(s) }) }, nil
}

func (p *parser) poison(s *Server, what string) (func(), error) {
	rev, err := p.count()
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return nil, err
	}
	p.words = strings.Fields(what)
	f, err := p.fault()
	if err != nil {
		return nil, err
	}
	if !f.atFrames() || f.on&watches == 0 {
		return nil, fmt.Errorf("%s can't happen to a frame: write one of %s", f.kind, namesOf(func(k faultKind) bool { return k.at != answering && k.on&watches != 0 }))
	}
	return func() { s.poison[int64(rev)] = f }, nil
}

func (p *parser) rule(s *Server, r rule, what string) (func(), error) {
	var err error
	if r.from, r.to, err = readRange(p.next()); err != nil {
		return nil, err
	}
	if p.accept("in") {
		if r.namespace = p.next(); r.namespace == "" {
			return nil, fmt.Errorf("the namespace is missing: write in NAMESPACE")
		}
	}
	frames, after, err := p.after()
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return nil, err
	}
	p.words = strings.Fields(what)
	if r.fault, err = p.fault(); err != nil {
		return nil, err
	}
	r.fault.afterFrames, r.fault.after = frames, after
	if r.on&r.fault.on == 0 {
		return nil, fmt.Errorf("%s can't happen to these requests: write one of %s", r.fault.kind, namesOf(func(k faultKind) bool { return k.on&r.on != 0 }))
	}
	if frames+int(after) > 0 {
		if r.on = r.on & watches; r.on == 0 || !r.fault.atFrames() {
			return nil, fmt.Errorf("after is for what happens inside a watch: leave it out")
		}
	}
	return func() { s.rules = append(s.rules, &r) }, nil
}

func (p *parser) after() (frames int, d time.Duration, err error) {
	if !p.accept("after") {
		return 0, 0, nil
	}
	if len(p.words) > 1 {
		if frames, err = p.count(); err == nil && !p.accept("frames") && !p.accept("frame") {
			err = fmt.Errorf("%q is not the unit: write after K frames, or after DURATION", p.peek())
		}
		return frames, 0, err
	}
	d, err = p.duration()
	return 0, d, err
}

// readRange reads N, N-M, N-* and *.
func readRange(word string) (from, to int, err error) {
	first, last, isRange := strings.Cut(word, "-")
	switch {
	case word == "*":
		return 1, 0, nil
	case !isRange:
		last = first
	}
	from, err = strconv.Atoi(first)
	if err == nil && last != "*" {
		if to, err = strconv.Atoi(last); to < from {
			err = strconv.ErrRange
		}
	}
	if err != nil || from < 1 {
		return 0, 0, fmt.Errorf("%q does not say which of these requests: write N, N-M, N-* or *", word)
	}
	return from, to, nil
}

func namesOf(match func(faultKind) bool) string {
	var names []string
	for _, k := range faultKinds {
		if match(k) {
			name := k.kind
			if k.arg == argStatus {
				name = "a status code"
			}
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
