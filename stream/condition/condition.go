package condition

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"unicode"

	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/internal/size"
	"github.com/gvrwatch/gvrwatch/stream"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"
)

// Condition is what an object has to meet: a text that [Parse] reads, or a function ([New]). It is comparable: equal
// Conditions are met by the same objects. The zero Condition is invalid.
type Condition struct {
	kind kind
	name string // of a status condition or a function, or the JSONPath between the braces
	// value is the status of a condition, or what a JSONPath must lead to. It is empty if a JSONPath may lead to any
	// value.
	value    string
	function *function
}

// function is behind a pointer, because functions are not comparable.
type function func(*unstructured.Unstructured) (bool, error)

type kind string

const (
	status kind = "condition"
	path   kind = "jsonpath"
	exists kind = "create"
	gone   kind = "delete"
	called kind = "function"
)

const (
	syntax  = "must be condition=NAME[=STATUS], jsonpath={PATH}[=VALUE], create or delete"
	maxText = 4096 // the parser of JSONPaths is recursive
)

// New returns a Condition that an object meets if a function returns true for it. An object that does not exist does
// not meet it; the function is not called. name stands for the Condition in errors. Each call of New makes another
// Condition.
//
// The result must depend on the object alone. The function must not change the object, which other Conditions may see,
// but may keep it: nobody changes it later. [Wait] makes one call at a time, for each state that is delivered of an
// object, also before everything is synced. If the function returns an error, or panics, Wait ends with an error that
// wraps it, or a [*stream.PanicError]. Nothing is removed from the text of such an error. With [stream.Metadata] the
// object has only metadata.
//
// What kstatus (sigs.k8s.io/cli-utils/pkg/kstatus/status) calls current, for objects of any type:
//
//	condition.New("current", func(o *unstructured.Unstructured) (bool, error) {
//		result, err := status.Compute(o)
//		return err == nil && result.Status == status.CurrentStatus, err
//	})
func New(name string, met func(*unstructured.Unstructured) (bool, error)) Condition {
	c := Condition{kind: called, name: name}
	if met != nil {
		c.function = (*function)(&met)
	}
	return c
}

// MustParse returns the Condition that [Parse] returns, and panics if Parse returns an error. It is for texts that are
// constants.
func MustParse(text string) Condition {
	c, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return c
}

// Parse parses a condition in the syntax of kubectl wait --for:
//
//	condition=Ready                  the condition Ready in status.conditions is True
//	condition=Ready=False            ... has another status; names and statuses are compared without case
//	jsonpath={.status.ip}            the JSONPath leads to a value, whatever it is
//	jsonpath={.status.phase}=Running ... to a value whose text is Running; braces and the first dot may be missing
//	create                           the object exists
//	delete                           the object does not exist
//
// A condition whose observedGeneration, or else that of the status, is lower than metadata.generation does not count.
// Spaces and quotes around the VALUE of a jsonpath are removed. A JSONPath has no "}", not even in a text, and at most
// one "..". An object in which that would take more than about 200 MB of memory (as one with 4,100 objects one in the
// other) does not meet the condition. A text has at most 4096 bytes. Parse returns an [*stream.OptionsError].
func Parse(text string) (Condition, error) {
	name, rest, hasRest := strings.Cut(text, "=")
	var c Condition
	problem := syntax
	switch k := kind(strings.ToLower(name)); {
	case len(text) > maxText:
		text, problem = text[:40]+"...", fmt.Sprintf("must have at most %d bytes", maxText)
	case !hasRest && (k == exists || k == gone):
		return Condition{kind: k}, nil
	case hasRest && name == string(status):
		c, problem = parseStatus(rest)
	case hasRest && name == string(path):
		c, problem = parsePath(rest)
	}
	if problem != "" {
		return Condition{}, invalid.New("condition", text, problem)
	}
	return c, nil
}

func parseStatus(text string) (c Condition, problem string) {
	name, value, hasValue := strings.Cut(text, "=")
	switch {
	case name == "":
		return c, "must have the name of a condition, as in condition=Ready"
	case hasValue && value == "":
		return c, "must have a status after the second =, as in condition=Ready=False"
	case !hasValue || strings.EqualFold(value, "True"):
		value = "True"
	}
	return Condition{kind: status, name: name, value: value}, ""
}

func parsePath(text string) (c Condition, problem string) {
	expression, rest := text, ""
	if end := strings.Index(text, "}"); strings.HasPrefix(text, "{") && end > 0 {
		expression, rest = text[1:end], text[end+1:]
	} else if at := loneEqual(text); at >= 0 {
		expression, rest = text[:at], text[at:]
	}
	value, hasValue := strings.CutPrefix(rest, "=")
	value = strings.TrimFunc(value, func(r rune) bool { return unicode.IsSpace(r) || r == '\'' || r == '"' })
	switch expression = strings.TrimPrefix(strings.TrimSpace(expression), "."); {
	case expression == "":
		return c, "must have a path, as in jsonpath={.status.phase}"
	case strings.ContainsAny(expression, "{}"), rest != "" && !hasValue:
		return c, "must have one path in one pair of braces, as in jsonpath={.status.phase}"
	case hasValue && value == "":
		return c, "must have a value after =, as in jsonpath={.status.phase}=Running"
	}
	if !strings.ContainsRune("[$@", rune(expression[0])) {
		expression = "." + expression
	}
	if strings.Count(expression, "..") > 1 { // two take a time that grows with the square of the object's depth
		return c, "must have at most one recursive descent (..)"
	}
	c = Condition{kind: path, name: expression, value: value}
	if _, err := c.find(map[string]any{}); err != nil {
		return c, "must have a valid JSONPath: " + err.Error()
	}
	return c, ""
}

// loneEqual returns the index of the first = that belongs to no operator (==, !=, <=, >=), or -1.
func loneEqual(text string) int {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '=':
		case strings.HasPrefix(text[i:], "=="):
			i++
		case i == 0 || !strings.ContainsRune("!<>", rune(text[i-1])):
			return i
		}
	}
	return -1
}

// String returns the condition in the form that [Parse] reads, or the name that [New] was given. It is empty for the
// zero Condition.
func (c Condition) String() string {
	if c.kind == called {
		return c.name
	}
	text := string(c.kind)
	switch {
	case c.kind == path:
		text += "={" + c.name + "}"
	case c.kind == status:
		text += "=" + c.name
	}
	if c.value == "" || c.kind == status && c.value == "True" {
		return text
	}
	return text + "=" + c.value
}

// Met reports whether an object meets the condition. An object that is nil does not exist. Met does not change the
// object, and may be called from any goroutine, if the function of a Condition from [New] keeps to that. It returns an
// [*stream.OptionsError] if the condition is zero or New had no name or function, or if a jsonpath leads to more than
// one value of the object, or is compared with an object or a list; and an error that wraps what the function returned,
// or a [*stream.PanicError].
func (c Condition) Met(o *unstructured.Unstructured) (bool, error) {
	problem, err := c.check(o)
	return problem == "" && err == nil, err
}

// invalid returns an error if the condition was not made as it must be.
func (c Condition) invalid() error {
	switch {
	case c.kind == "":
		return errZero
	case c.kind == called && (c.name == "" || c.function == nil):
		return invalid.New("condition", c.name, "must have a name and a function")
	}
	return nil
}

// check returns why an object does not meet the condition. The text has nothing of the object's content.
func (c Condition) check(o *unstructured.Unstructured) (problem string, err error) {
	if err := c.invalid(); err != nil {
		return "", err
	}
	switch {
	case c.kind == gone && o != nil:
		return "exists", nil
	case c.kind != gone && o == nil:
		return missing, nil
	case c.kind == status:
		return c.checkStatus(o.Object), nil
	case c.kind == path:
		return c.checkPath(o.Object)
	case c.kind == called:
		return c.call(o)
	}
	return "", nil
}

// call calls the function of the caller.
func (c Condition) call(o *unstructured.Unstructured) (problem string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &stream.PanicError{Where: c.name, Value: v, Stack: debug.Stack()}
		}
		if err != nil {
			err = fmt.Errorf("condition: cannot check %s: %w", c.name, err)
		}
	}()
	met, err := (*c.function)(o)
	if met || err != nil {
		return "", err
	}
	return "does not meet " + c.name, nil
}

const missing = "does not exist"

func (c Condition) checkStatus(o map[string]any) (problem string) {
	field, _, _ := unstructured.NestedFieldNoCopy(o, "status", "conditions")
	all, _ := field.([]any)
	for _, one := range all {
		fields, _ := one.(map[string]any)
		name, _ := fields["type"].(string)
		value, hasValue := fields["status"].(string)
		if !hasValue || !strings.EqualFold(name, c.name) {
			continue
		}
		observed, found, _ := unstructured.NestedInt64(fields, "observedGeneration")
		if !found {
			observed, found, _ = unstructured.NestedInt64(o, "status", "observedGeneration")
		}
		generation, _, _ := unstructured.NestedInt64(o, "metadata", "generation")
		switch {
		case found && observed < generation:
			return "condition " + c.name + " is that of an older generation"
		case strings.EqualFold(value, c.value):
			return ""
		}
		for _, known := range []string{"True", "False", "Unknown"} {
			if strings.EqualFold(value, known) {
				return "condition " + c.name + " is " + known
			}
		}
		return "condition " + c.name + " has another status"
	}
	return "has no condition " + c.name
}

func (c Condition) checkPath(o map[string]any) (problem string, err error) {
	if size.TooDeep(o, strings.Count(c.name, "..")) {
		return "is too deep or too large to look for {" + c.name + "}", nil
	}
	found, err := c.find(o)
	switch {
	case err != nil || len(found) == 0:
		return "{" + c.name + "} has no value", nil
	case len(found) > 1:
		return "", invalid.New("jsonpath", "{"+c.name+"}", "must lead to one value, leads to several")
	case c.value == "":
		return "", nil
	}
	switch found[0].(type) {
	case map[string]any, []any:
		return "", invalid.New("jsonpath", "{"+c.name+"}",
			"must lead to a text, a number or a boolean to compare it with a value, leads to an object or a list")
	}
	if strings.TrimSpace(fmt.Sprint(found[0])) != c.value {
		return "{" + c.name + "} has another value", nil
	}
	return "", nil
}

// find evaluates the JSONPath. It parses it each time, because an evaluation may change what was parsed. It returns a
// panic of client-go's code as an error.
func (c Condition) find(o map[string]any) (values []any, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("its evaluation failed")
		}
	}()
	j := jsonpath.New("condition").AllowMissingKeys(true)
	if err := j.Parse("{" + c.name + "}"); err != nil {
		return nil, err
	}
	lists, err := j.FindResults(o)
	for _, list := range lists {
		for _, v := range list {
			values = append(values, v.Interface())
		}
	}
	return values, err
}
