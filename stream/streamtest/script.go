package streamtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Apply adds the lines of a script, whose language the package documentation describes. Requests and time count from
// this call on. If a line is invalid, or can never happen because an earlier line of this script or of one before
// applies first, Apply does nothing, and the error says which line, and what it must be.
func (s *Server) Apply(script string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	var added []*line
	for i, text := range strings.Split(script, "\n") {
		text, _, _ = strings.Cut(text, "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		l, err := s.line(text)
		if err == nil {
			err = l.checkShadowed(slices.Concat(s.live, added))
		}
		if err != nil {
			return fmt.Errorf("streamtest: invalid line %d of the script, %q: %w", i+1, text, err)
		}
		added = append(added, l)
	}
	s.lines, s.live = append(s.lines, added...), append(s.live, added...)
	for _, l := range added {
		if l.action != nil {
			s.schedule(time.Now().Add(l.after), true, func() { l.fired = true; l.action() })
		}
	}
	s.runDue()
	return nil
}

// Do runs an action now, as the line "at 0s: ACTION" of a script does: "compact", "rewind 3", "widgets delete crd".
func (s *Server) Do(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	do, err := s.action(nil, strings.Fields(what))
	if err != nil {
		return fmt.Errorf("streamtest: invalid action %q: %w", what, err)
	}
	do()
	s.wake()
	return nil
}

var triggers = []string{
	"CLASS WHICH", "CLASS WHICH after DURATION", "CLASS WHICH after N frames", "CLASS WHICH after N frame",
	"CLASS WHICH in NAMESPACE", "CLASS WHICH in NAMESPACE after DURATION", "CLASS WHICH in NAMESPACE after N frames",
	"change N", "at DURATION",
}

func (s *Server) line(text string) (*line, error) {
	trigger, what, ok := strings.Cut(text, ":")
	if !ok {
		return nil, fmt.Errorf("missing colon: must be TRIGGER: FAULT")
	}
	resources, words := s.resources(strings.Fields(trigger))
	usage, a, err := match(triggers, words)
	if err != nil {
		return nil, fmt.Errorf("trigger: %w", err)
	}
	l := &line{text: text}
	if usage == "at DURATION" {
		l.after = a.duration
		l.action, err = s.action(resources, strings.Fields(what))
		return l, err
	}
	if l.fault, err = readFault(strings.Fields(what)); err != nil {
		return nil, err
	}
	f := &l.fault
	f.line = l
	switch {
	case usage == "change N" && len(resources) > 0:
		return nil, fmt.Errorf("invalid resource for \"change\": must be left out, because revisions are the server's")
	case usage == "change N" && (f.at == answering || f.on&watches == 0):
		return nil, fmt.Errorf("invalid fault %q: must be one that happens to a frame", f.usage)
	case usage == "change N":
		l.change = int64(a.n)
		return l, nil
	case a.class&f.on == 0:
		return nil, fmt.Errorf("invalid fault %q: must be one that happens to these requests", f.usage)
	}
	l.rule = &rule{on: a.class & f.on, resources: resources, namespace: a.namespace, from: a.from, to: a.to}
	if strings.Contains(usage, "after") {
		f.afterFrames, f.after = a.n, a.duration
		if l.rule.on &= watches; l.rule.on == 0 || f.at == answering {
			return nil, fmt.Errorf("invalid \"after\" for %q: must be a fault inside a watch", f.usage)
		}
	}
	return l, nil
}

func (s *Server) action(resources []gvr.Resource, words []string) (func(), error) {
	if resources == nil {
		resources, words = s.resources(words)
	}
	var usages []string
	for _, a := range actions {
		usages = append(usages, a.usage)
	}
	usage, args, err := match(usages, words)
	if err != nil {
		return nil, err
	}
	a := actions[slices.Index(usages, usage)]
	if len(resources) > 0 && a.all {
		return nil, fmt.Errorf("invalid resource for %q: must be left out for an action on the whole server", usage)
	}
	args.resources = resources
	return func() { a.do(s, args) }, nil
}

func readFault(words []string) (fault, error) {
	var usages []string
	for _, k := range faultKinds {
		usages = append(usages, k.usage)
	}
	usage, a, err := match(usages, words)
	if err != nil {
		return fault{}, err
	}
	return fault{faultKind: faultKinds[slices.Index(usages, usage)], args: a}, nil
}

// resources reads the name of resources if the words begin with one, and returns the other words.
func (s *Server) resources(words []string) (found []gvr.Resource, rest []string) {
	if len(words) == 0 {
		return nil, words
	}
	for _, r := range s.known {
		names := []string{r.GroupVersionResource.Resource, r.String(), r.GroupResource().String()}
		if slices.Contains(names, words[0]) {
			found, rest = append(found, r), words[1:]
		}
	}
	if found == nil {
		return nil, words
	}
	return found, rest
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
