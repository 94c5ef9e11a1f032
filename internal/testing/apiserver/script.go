package apiserver

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Language is a part of the script language: the faults and the actions that a script may have, each as Everything has
// it.
type Language struct{ Faults, Actions []string }

// Everything returns all faults and actions.
func Everything() (l Language) {
	for _, k := range faultKinds {
		l.Faults = append(l.Faults, k.usage)
	}
	for _, a := range actions {
		l.Actions = append(l.Actions, a.usage)
	}
	return l
}

// Apply adds the lines of a script in the whole language.
func (s *Server) Apply(script string) error { return s.ApplyIn(Everything(), script) }

// ApplyIn adds the lines of a script, or none if it returns an error.
func (s *Server) ApplyIn(l Language, script string) error {
	defer s.lock()()
	var added []*line
	for i, text := range strings.Split(script, "\n") {
		text, _, _ = strings.Cut(text, "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		read, err := l.line(&s.state.catalog, text)
		if err == nil {
			err = read.checkShadowed(slices.Concat(s.state.script.live, added))
		}
		if err != nil {
			return fmt.Errorf("streamtest: invalid line %d of the script, %q: %w", i+1, text, err)
		}
		added = append(added, read)
	}
	s.state.script.add(added)
	for _, l := range added {
		if l.action != nil {
			s.state.schedule(timed{time.Now().Add(l.after), func() { l.fired = true; l.action(&s.state) }, true})
		}
	}
	s.state.runDue()
	return nil
}

// Do runs an action of the whole language now.
func (s *Server) Do(what string) error { return s.DoIn(Everything(), what) }

// DoIn runs an action now.
func (s *Server) DoIn(l Language, what string) error {
	defer s.lock()()
	do, err := l.action(&s.state.catalog, nil, strings.Fields(what))
	if err != nil {
		return fmt.Errorf("streamtest: invalid action %q: %w", what, err)
	}
	do(&s.state)
	s.state.wake()
	return nil
}

// CheckScript returns an error that names the lines of scripts that have had no effect so far.
func (s *Server) CheckScript() error {
	defer s.lock()()
	if unmet := s.state.script.unmet(); len(unmet) > 0 {
		return errors.New("streamtest: lines of the script that have had no effect:\n\t" + strings.Join(unmet, "\n\t"))
	}
	return nil
}

var triggers = []string{
	"CLASS WHICH", "CLASS WHICH after DURATION", "CLASS WHICH after N frames", "CLASS WHICH after N frame",
	"CLASS WHICH in NAMESPACE", "CLASS WHICH in NAMESPACE after DURATION", "CLASS WHICH in NAMESPACE after N frames",
	"change N", "at DURATION",
}

func (l Language) line(c *catalog, text string) (*line, error) {
	trigger, what, ok := strings.Cut(text, ":")
	if !ok {
		return nil, fmt.Errorf("missing colon: must be TRIGGER: FAULT")
	}
	resources, words := c.named(strings.Fields(trigger))
	usage, a, err := match(triggers, words)
	if err != nil {
		return nil, fmt.Errorf("trigger: %w", err)
	}
	read := &line{text: text}
	if usage == "at DURATION" {
		read.after = a.duration
		read.action, err = l.action(c, resources, strings.Fields(what))
		return read, err
	}
	if read.fault, err = l.fault(strings.Fields(what)); err != nil {
		return nil, err
	}
	f := &read.fault
	f.line = read
	switch {
	case usage == "change N" && len(resources) > 0:
		return nil, fmt.Errorf("invalid resource for \"change\": must be left out, because revisions are the server's")
	case usage == "change N" && (f.at == answering || f.on&watches == 0):
		return nil, fmt.Errorf("invalid fault %q: must be one that happens to a frame", f.usage)
	case usage == "change N":
		read.change = int64(a.n)
		return read, nil
	case a.class&f.on == 0:
		return nil, fmt.Errorf("invalid fault %q: must be one that happens to these requests", f.usage)
	}
	read.rule = &rule{on: a.class & f.on, resources: resources, namespace: a.namespace, from: a.from, to: a.to}
	if strings.Contains(usage, "after") {
		f.afterFrames, f.after = a.n, a.duration
		if read.rule.on &= watches; read.rule.on == 0 || f.at == answering {
			return nil, fmt.Errorf("invalid \"after\" for %q: must be a fault inside a watch", f.usage)
		}
	}
	return read, nil
}

func (l Language) action(c *catalog, resources []gvr.Resource, words []string) (func(*state), error) {
	if resources == nil {
		resources, words = c.named(words)
	}
	usage, args, err := match(l.Actions, words)
	if err != nil {
		return nil, err
	}
	a := actions[slices.IndexFunc(actions, func(a action) bool { return a.usage == usage })]
	if len(resources) > 0 && a.all {
		return nil, fmt.Errorf("invalid resource for %q: must be left out for an action on the whole server", usage)
	}
	args.resources = resources
	return func(s *state) { a.do(s, args) }, nil
}

func (l Language) fault(words []string) (fault, error) {
	usage, a, err := match(l.Faults, words)
	if err != nil {
		return fault{}, err
	}
	k := slices.IndexFunc(faultKinds, func(k faultKind) bool { return k.usage == usage })
	return fault{faultKind: faultKinds[k], args: a}, nil
}

// args are the values that a line has for the words in capitals of a usage.
type args struct {
	class                  class
	from, to               int // WHICH; to == 0 means no end
	n, code                int
	duration               time.Duration
	verb, group, namespace string
	resources              []gvr.Resource
}

// match finds the usage that fits the words. Words in capitals stand for arguments.
func match(usages, words []string) (usage string, a args, err error) {
	for _, usage := range usages {
		a, fits, wrong := args{}, true, error(nil)
		pattern := strings.Fields(usage)
		for i, want := range pattern {
			switch {
			case len(words) != len(pattern):
				fits = false
			case !unicode.IsUpper(rune(want[0])) || want == "Gone":
				fits = fits && words[i] == want
			case wrong == nil:
				wrong = a.read(want, words[i])
				fits = fits && (want != "CODE" || wrong == nil) // else it may be any word
			}
		}
		if fits && wrong == nil {
			return usage, a, nil
		}
		if fits && err == nil {
			err = fmt.Errorf("%s: %w", usage, wrong)
		}
	}
	if err == nil {
		err = fmt.Errorf("invalid words %q: must be one of %s", strings.Join(words, " "), strings.Join(usages, ", "))
	}
	return "", a, err
}

func (a *args) read(what, word string) error {
	rule, err := "", error(nil)
	switch what {
	case "CLASS":
		a.class, rule = classes[word], "list, page, probe, watch, initial, get, write, discovery or any"
	case "WHICH":
		err, rule = a.readRange(word), "N, N-M, N-* or *"
	case "N":
		a.n, err = strconv.Atoi(word)
		rule = "a number from 1"
	case "CODE":
		a.code, err = strconv.Atoi(word)
		rule = "a status code from 400 to 599"
	case "DURATION", "SECONDS":
		a.duration, err = time.ParseDuration(word)
		rule = "a duration such as 3s or 1m30s"
	case "VERB":
		a.verb, rule = word, "all or one of "+strings.Join(everyVerb, ", ")
	case "GROUP":
		if word != "core" {
			a.group = word
		}
	case "NAMESPACE":
		a.namespace = word
	}
	ok := true
	switch what {
	case "CLASS":
		ok = a.class != 0
	case "N":
		ok = a.n > 0
	case "CODE":
		ok = a.code >= 400 && a.code <= 599
	case "DURATION":
		ok = a.duration >= 0
	case "SECONDS":
		ok, rule = a.duration >= time.Second && a.duration%time.Second == 0, "whole seconds, such as 3s"
	case "VERB":
		ok = word == "all" || slices.Contains(everyVerb, word)
	}
	if err != nil || !ok {
		return fmt.Errorf("invalid %s %q: must be %s", what, word, rule)
	}
	return nil
}

func (a *args) readRange(word string) (err error) {
	first, last, isRange := strings.Cut(word, "-")
	if word == "*" {
		first, last, isRange = "1", "*", true
	}
	if !isRange {
		last = first
	}
	if a.from, err = strconv.Atoi(first); err == nil && last != "*" {
		a.to, err = strconv.Atoi(last)
	}
	if a.from < 1 || last != "*" && a.to < a.from {
		err = strconv.ErrRange
	}
	return err
}
