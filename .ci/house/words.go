package main

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// glossary has the words that this repository does not use, and what to write instead.
var glossary = map[string]string{
	"tell": "deliver, emit, report", "tells": "delivers, emits, reports",
	"told": "delivered, emitted, reported", "telling": "delivering, emitting, reporting",
	"lane": "worker", "lanes": "workers", "leg": "run", "legs": "runs",
	"lookout": "name watcher", "lookouts": "name watchers",
	"kick": "refresh", "kicks": "refreshes", "kicked": "refreshed", "glance": "poll",
	"ghost": "pending entry", "ghosts": "pending entries", "haunt": "add", "haunts": "adds", "bury": "resolve",
	"mercy": "grace period", "crew": "decode pool", "asker": "access checker", "patience": "retry budget, timeout",
	"floor": "minimum version", "floors": "minimum versions", "elsewhere": "other namespaces, other versions",
	"anew": "again, restart", "owed": "pending", "vacant": "duplicate page",
	"sight": "metadata view", "sketch": "identity only", "wish": "request hints", "wishes": "request hints",
	"seat": "subscriber", "seats": "subscribers",
}

// word matches the words of a text, and those within an identifier.
var word = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// An allowance permits a word in a file.
type allowance struct {
	file, word string
	used       bool
}

// readAllowed parses lines such as "gvr/ref.go floor: math.Floor".
func readAllowed(repo fs.FS, name string) (list []*allowance, err error) {
	err = readEntries(repo, name, "FILE WORD: REASON", func(parts []string) bool {
		if len(parts) != 2 {
			return false
		}
		list = append(list, &allowance{file: parts[0], word: strings.ToLower(parts[1])})
		return true
	})
	return list, err
}

// readEntries calls add with the fields before the colon of each line that has the form. Empty lines and lines that
// begin with # are comments. A file that does not exist is empty.
func readEntries(repo fs.FS, name, form string, add func(parts []string) bool) error {
	text, err := fs.ReadFile(repo, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		place, why, _ := strings.Cut(line, ": ")
		if strings.TrimSpace(why) == "" || !add(strings.Fields(place)) {
			return fmt.Errorf("%s:%d: invalid line %q: must be %q", name, i+1, line, form)
		}
	}
	return nil
}

// words reports each word of the glossary that the file may not have.
func (r *report) words(name string, number int, line string) {
	for _, found := range word.FindAllString(line, -1) {
		lower := strings.ToLower(found)
		if instead, ok := glossary[lower]; ok && !r.permits(name, lower) {
			r.problem("%s:%d: the glossary replaces %q: %s", name, number, found, instead)
		}
	}
}

func (r *report) permits(name, word string) bool {
	for _, a := range r.allowed {
		if a.file == name && a.word == word {
			a.used = true
			return true
		}
	}
	return false
}

// unusedWords reports allowances that permit nothing.
func (r *report) unusedWords() {
	for _, a := range r.allowed {
		if !a.used {
			r.problem("%s: %s has no %q: remove the line", wordsFile, a.file, a.word)
		}
	}
}
