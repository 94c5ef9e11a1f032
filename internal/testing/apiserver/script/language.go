package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Language is a part of the script language: the faults and the actions that a script may have, each as Everything has
// it.
type Language struct{ Faults, Actions []string }

// Everything returns all faults and actions.
func Everything() (l Language) {
	for _, k := range faultKinds {
		l.Faults = append(l.Faults, k.usage)
	}
	l.Actions = slices.Concat(serverActions, resourceActions)
	return l
}

// Action is what a script does to the server, rather than to a request.
type Action struct {
	Usage string // as Language has it
	// The values of its arguments.
	N                      int
	Duration               time.Duration
	Verb, Group, Namespace string
	Resources              Resources
}

// The actions of the script language. A new one also needs a case in Server.do of package apiserver or in Door.Do, and
// a line in the documentation.
var (
	serverActions = []string{ // no resource may be named
		"compact", "rewind N", "rewind N restart", "restart", "heal", "unauthorized", "authorized",
		"discovery down GROUP", "discovery up GROUP", "410 in stream", "410 as status", "410 as close",
		"bookmarks never", "bookmarks every SECONDS", "no protobuf",
	}
	resourceActions = []string{
		"delete crd", "create crd", "expire", "close watches", "silence",
		"forbid VERB", "forbid VERB in NAMESPACE", "allow VERB", "allow VERB in NAMESPACE", "allow",
	}
)

// Action reads an action.
func (l Language) Action(known Resources, what string) (Action, error) {
	a, err := l.action(known, nil, strings.Fields(what))
	if err != nil {
		err = fmt.Errorf("streamtest: invalid action %q: %w", what, err)
	}
	return a, err
}

var triggers = []string{
	"CLASS WHICH", "CLASS WHICH after DURATION", "CLASS WHICH after N frames", "CLASS WHICH after N frame",
	"CLASS WHICH in NAMESPACE", "CLASS WHICH in NAMESPACE after DURATION", "CLASS WHICH in NAMESPACE after N frames",
	"change N", "at DURATION",
}

func (l Language) line(known Resources, text string) (*line, error) {
	trigger, what, ok := strings.Cut(text, ":")
	if !ok {
		return nil, fmt.Errorf("missing colon: must be TRIGGER: FAULT")
	}
	resources, words := known.named(strings.Fields(trigger))
	usage, a, err := match(triggers, words)
	if err != nil {
		return nil, fmt.Errorf("trigger: %w", err)
	}
	read := &line{text: text}
	if usage == "at DURATION" {
		read.after = a.duration
		do, err := l.action(known, resources, strings.Fields(what))
		read.action = &do
		return read, err
	}
	if read.fault, err = l.fault(strings.Fields(what)); err != nil {
		return nil, err
	}
	f := &read.fault
	switch {
	case usage == "change N" && len(resources) > 0:
		return nil, fmt.Errorf("invalid resource for \"change\": must be left out, because revisions are the server's")
	case usage == "change N" && (f.At == Answering || f.on&watches == 0):
		return nil, fmt.Errorf("invalid fault %q: must be one that happens to a frame", f.Usage)
	case usage == "change N":
		read.change = int64(a.n)
		return read, nil
	case a.class&f.on == 0:
		return nil, fmt.Errorf("invalid fault %q: must be one that happens to these requests", f.Usage)
	}
	read.rule = &rule{on: a.class & f.on, resources: resources, namespace: a.namespace, from: a.from, to: a.to}
	if strings.Contains(usage, "after") {
		f.AfterFrames, f.After = a.n, a.duration
		if read.rule.on &= watches; read.rule.on == 0 || f.At == Answering {
			return nil, fmt.Errorf("invalid \"after\" for %q: must be a fault inside a watch", f.Usage)
		}
	}
	return read, nil
}

func (l Language) action(known, resources Resources, words []string) (Action, error) {
	if resources == nil {
		resources, words = known.named(words)
	}
	usage, a, err := match(l.Actions, words)
	if err == nil && len(resources) > 0 && slices.Contains(serverActions, usage) {
		err = fmt.Errorf("invalid resource for %q: must be left out for an action on the whole server", usage)
	}
	return Action{usage, a.n, a.duration, a.verb, a.group, a.namespace, resources}, err
}

func (l Language) fault(words []string) (Fault, error) {
	usage, a, err := match(l.Faults, words)
	if err != nil {
		return Fault{}, err
	}
	k := faultKinds[slices.IndexFunc(faultKinds, func(k faultKind) bool { return k.usage == usage })]
	return Fault{Usage: usage, At: k.at, on: k.on, Code: a.code, N: a.n, Duration: a.duration}, nil
}

// args are the values that a line has for the words in capitals of a usage.
type args struct {
	class                  class
	from, to               int // WHICH; to == 0 means no end
	n, code                int
	duration               time.Duration
	verb, group, namespace string
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
	ok, rule, err := true, "", error(nil)
	switch what {
	case "CLASS":
		a.class, rule = classes[word], "list, page, probe, watch, initial, get, write, discovery or any"
		ok = a.class != 0
	case "WHICH":
		err, rule = a.readRange(word), "N, N-M, N-* or *"
	case "N":
		a.n, err = strconv.Atoi(word)
		ok, rule = a.n > 0, "a number from 1"
	case "CODE":
		a.code, err = strconv.Atoi(word)
		ok, rule = a.code >= 400 && a.code <= 599, "a status code from 400 to 599"
	case "DURATION":
		a.duration, err = time.ParseDuration(word)
		ok, rule = a.duration >= 0, "a duration such as 3s or 1m30s"
	case "SECONDS":
		a.duration, err = time.ParseDuration(word)
		ok, rule = a.duration >= time.Second && a.duration%time.Second == 0, "whole seconds, such as 3s"
	case "VERB":
		a.verb, rule = word, "all or one of "+strings.Join(verbs, ", ")
		ok = word == "all" || slices.Contains(verbs, word)
	case "GROUP":
		if word != "core" {
			a.group = word
		}
	case "NAMESPACE":
		a.namespace = word
	}
	if err != nil || !ok {
		return fmt.Errorf("invalid %s %q: must be %s", what, word, rule)
	}
	return nil
}

var verbs = []string{"create", "delete", "get", "list", "update", "watch"}

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
