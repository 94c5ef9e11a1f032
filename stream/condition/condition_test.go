package condition_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
)

func TestParse(t *testing.T) {
	tests := []struct{ text, want, why string }{
		{"condition=Ready", "condition=Ready", "the status is True unless it says otherwise"},
		{"condition=Ready=true", "condition=Ready", "the default, in any case"},
		{"condition=Ready=False", "condition=Ready=False", "another status"},
		{"condition=Ready=a=b", "condition=Ready=a=b", "kubectl cuts at the first ="},
		{"delete", "delete", ""},
		{"Create", "create", "kubectl ignores the case of the words without arguments"},
		{"jsonpath={.status.phase}=Running", "jsonpath={.status.phase}=Running", ""},
		{"jsonpath={.status.ip}", "jsonpath={.status.ip}", "any value"},
		{"jsonpath=.status.phase=Running", "jsonpath={.status.phase}=Running", "without braces"},
		{"jsonpath=status.phase", "jsonpath={.status.phase}", "without braces and dot"},
		{"jsonpath={status.phase}", "jsonpath={.status.phase}", "without dot"},
		{"jsonpath={ .status.phase }", "jsonpath={.status.phase}", "spaces"},
		{"jsonpath={..phase}", "jsonpath={..phase}", "recursive descent"},
		{"jsonpath={$.status}", "jsonpath={$.status}", "the root, which kubectl never finds"},
		{`jsonpath={.a}='b c'`, "jsonpath={.a}=b c", "quotes that the shell has left"},
		{"jsonpath={.a}=b=c", "jsonpath={.a}=b=c", "a value with =, which kubectl refuses"},
		{`jsonpath={.c[?(@.type=="Ready")].status}=True`, `jsonpath={.c[?(@.type=="Ready")].status}=True`, "a filter"},
		{`jsonpath=.c[?(@.t=="Ready")].s=True`, `jsonpath={.c[?(@.t=="Ready")].s}=True`, "== cuts nothing"},
		{`jsonpath=.c[?(@.n>=3)].status=True`, `jsonpath={.c[?(@.n>=3)].status}=True`, ">= neither"},
		{`jsonpath=.c[?(@.n>=3)]`, `jsonpath={.c[?(@.n>=3)]}`, ">= without a value"},
		{`jsonpath=.c[?(@.n!=3)]`, `jsonpath={.c[?(@.n!=3)]}`, "!= without a value"},
		{"jsonpath=@.a", "jsonpath={@.a}", "the current object"},
		{"jsonpath={.a}= b ", "jsonpath={.a}=b", "spaces around the value"},
		{`jsonpath=.a==b`, `jsonpath={.a==b}`, "kubectl's reading, too"},

		{"", "must be condition=NAME", "nothing"},
		{"condition", "must be condition=NAME", "no name"},
		{"Condition=Ready", "must be condition=NAME", "kubectl distinguishes the case here"},
		{"delete=now", "must be condition=NAME", "an argument too many"},
		{"ready", "must be condition=NAME", "another word"},
		{"condition=", "must have the name of a condition", ""},
		{"condition=Ready=", "must have a status", "kubectl would wait for ever"},
		{"jsonpath=", "must have a path", ""},
		{"jsonpath={.}", "must have a path", ""},
		{"jsonpath==x", "must have a path", "no path before the value"},
		{"jsonpath={..a..b}", "must have at most one recursive descent", "38 s for an object of 2,000 levels"},
		{"jsonpath={}=a", "must have a path", ""},
		{"jsonpath={.a}=", "must have a value", ""},
		{"jsonpath={.a}=''", "must have a value", "an empty one"},
		{"jsonpath={.a}b", "must have one path", "text after the braces"},
		{"jsonpath={.a}{.b}", "must have one path", "two paths"},
		{"jsonpath={.a", "must have one path", "an open brace"},
		{"jsonpath={.a[}", "must have a valid JSONPath: unterminated array", ""},
		{"jsonpath={[0]}", "must have a valid JSONPath", "an object is no list"},
		{"jsonpath={.a foo}", "must have a valid JSONPath: unrecognized identifier foo", ""},
		{"jsonpath={" + strings.Repeat(".a", 3000) + "}", "must have at most 4096 bytes", "endless recursion"},
	}
	for _, tt := range tests {
		c, err := condition.Parse(tt.text)
		if err != nil {
			var invalid *stream.OptionsError
			if !errors.As(err, &invalid) || !strings.Contains(invalid.Problem, tt.want) {
				t.Errorf("%.50q: %v, want %s (%s)", tt.text, err, tt.want, tt.why)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, c.String()); diff != "" {
			t.Errorf("%q (-want +got): %s (%s)", tt.text, diff, tt.why)
		}
		if again, err := condition.Parse(c.String()); err != nil || again != c {
			t.Errorf("%q: its String is parsed as %v, %v", tt.text, again, err)
		}
	}
}

// object returns an object with the fields in text, which is JSON.
func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	var fields map[string]any
	if err := utiljson.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: fields}
}

func TestMet(t *testing.T) {
	ready := func(status string) string {
		return `{"status":{"conditions":[1,{"type":"Other","status":"False"},` +
			`{"type":"Ready","status":"` + status + `"}]}}`
	}
	observed := func(generation, inCondition, inStatus string) string {
		return `{"metadata":{"generation":` + generation + `},"status":{` + inStatus +
			`"conditions":[{"type":"Ready","status":"True"` + inCondition + `}]}}`
	}
	tests := []struct{ condition, object, want, why string }{
		{"condition=Ready", ready("True"), "true", ""},
		{"condition=ready=TRUE", ready("True"), "true", "names and statuses are compared without case"},
		{"condition=Ready", ready("False"), "false", ""},
		{"condition=Ready=fALSE", ready("False"), "true", "another status, without case"},
		{"condition=Absent", ready("True"), "false", ""},
		{"condition=Ready", `{}`, "false", "no status"},
		{"condition=Ready", `{"status":"x"}`, "false", "a status of another type"},
		{"condition=Ready", `{"status":{"conditions":[{"type":"Ready","status":true}]}}`, "false", "not a text"},
		{"condition=Ready", observed("2", `,"observedGeneration":2`, ""), "true", ""},
		{"condition=Ready", observed("2", `,"observedGeneration":1`, ""), "false", "of an older generation"},
		{"condition=Ready", observed("2", "", `"observedGeneration":1,`), "false", "the whole status is"},
		{"condition=Ready", observed("2", `,"observedGeneration":2`, `"observedGeneration":1,`), "true",
			"the condition's own generation counts first"},
		{"condition=Ready", observed("2", "", ""), "true", "no observedGeneration"},

		{"jsonpath={.a.b}", `{"a":{"b":0}}`, "true", "any value"},
		{"jsonpath={.a.b}", `{"a":{}}`, "false", "no value"},
		{"jsonpath={.a.b}", `{"a":{"b":[]}}`, "true", "a list is a value"},
		{"jsonpath={.a.b}=x", `{"a":{"b":"x"}}`, "true", ""},
		{"jsonpath={.a.b}=x", `{"a":{"b":" x "}}`, "true", "spaces around do not matter"},
		{"jsonpath={.a.b}=x", `{"a":{"b":"X"}}`, "false", "the case does"},
		{"jsonpath={.a.b}=3", `{"a":{"b":3}}`, "true", "a number as text"},
		{"jsonpath={.a.b}=true", `{"a":{"b":true}}`, "true", "a boolean as text"},
		{"jsonpath={.a.b}=x", `{"a":{"b":["x"]}}`, "must lead to a text", "a list is not compared"},
		{"jsonpath={.a.b}=x", `{"a":{"b":{"x":1}}}`, "must lead to a text", "nor is an object"},
		{"jsonpath={.a[*].b}=x", `{"a":[{"b":"x"}]}`, "true", "one element"},
		{"jsonpath={.a[*].b}=x", `{"a":[{"b":"x"},{"b":"x"}]}`, "must lead to one value", "two elements"},
		{"jsonpath={.a[*].b}", `{"a":[{"b":"x"},{"b":"x"}]}`, "must lead to one value", "as in kubectl"},
		{"jsonpath={.a[0].b}=x", `{"a":[]}`, "false", "an index beyond the end"},
		{"jsonpath={.a[0].b}=x", `{"a":"text"}`, "false", "not a list"},
		{`jsonpath={.a[?(@.t=="R")].s}=x`, `{"a":[{"t":"Q","s":"y"},{"t":"R","s":"x"}]}`, "true", "a filter"},
		{`jsonpath={.a[?(@.t=="R")].s}=x`, `{"a":[{"t":1,"s":"x"}]}`, "false", "types that can't be compared"},
		{"jsonpath={['a']}=x", `{"a":"x"}`, "true", "a key in brackets"},
		{"jsonpath={@.a}=x", `{"a":"x"}`, "true", "the current object"},
		{"jsonpath={$.a}=x", `{"a":"x"}`, "true", "the root"},
		{"jsonpath={..b}=x", `{"a":{"b":"x"}}`, "true", "recursive descent"},

		{"create", `{}`, "true", ""},
		{"delete", `{}`, "false", ""},
		{"create", "", "false", "it does not exist"},
		{"delete", "", "true", "it does not exist"},
		{"condition=Ready", "", "false", "it does not exist"},
	}
	for _, tt := range tests {
		c, err := condition.Parse(tt.condition)
		if err != nil {
			t.Fatal(err)
		}
		var o *unstructured.Unstructured
		if tt.object != "" {
			o = object(t, tt.object)
		}
		for range 2 { // a first evaluation must not change the second
			met, err := c.Met(o)
			got := fmt.Sprint(met)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("%s of %s: got %s, want %s (%s)", c, tt.object, got, tt.want, tt.why)
			}
		}
	}
	if met, err := (condition.Condition{}).Met(nil); met || err == nil || (condition.Condition{}).String() != "" {
		t.Errorf("the zero Condition: %v, %v", met, err)
	}
	ready1, _ := condition.Parse("condition=Ready")
	if met, err := ready1.Met(&unstructured.Unstructured{}); met || err != nil {
		t.Errorf("an object without fields: %v, %v", met, err)
	}
}

// TestMetOfDeepObjects: a recursive descent, which takes memory in proportion to the square of an object's depth, is
// bounded. No object ends a wait by being deep.
func TestMetOfDeepObjects(t *testing.T) {
	deep := object(t, strings.Repeat(`{"a":`, 9900)+`"x"`+strings.Repeat(`}`, 9900))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, text := range []string{"jsonpath={..a}", "jsonpath={..b}", `jsonpath={.a[?(@..b=="x")]}`} {
		if met, err := condition.MustParse(text).Met(deep); met || err != nil {
			t.Errorf("%s: %v, %v", text, met, err)
		}
	}
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 10 {
		t.Errorf("it took %d MB", mb)
	}
}

// FuzzParse: Parse never panics, and String parses back to an equal Condition that no object makes panic.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"condition=Ready", "condition=Ready=False", "delete", "create", "jsonpath={.status.phase}=Running",
		"jsonpath=status.ip", `jsonpath={.a[?(@.b=="c")].d[0:2:1]}='x'`, "jsonpath={..a[*]['b','c']}",
		"jsonpath={.a range .b}",
		`jsonpath={.a["x"]}`, "jsonpath={.a[-1:]}", `jsonpath={.a[?(@.b<1.5)]}`, `jsonpath={"text"}=text`,
	} {
		f.Add(text)
	}
	deep := `{"a":[{"b":"c","d":[1,2.5,null,true,{"e":{}}]},[],"text"],` +
		`"status":{"phase":"x","conditions":[null]},"":{}}`
	f.Fuzz(func(t *testing.T, text string) {
		c, err := condition.Parse(text)
		if err != nil {
			return
		}
		again, err := condition.Parse(c.String())
		if err != nil || again != c {
			t.Errorf("%q: String %q is parsed as %q, %v", text, c, again, err)
		}
		for _, o := range []*unstructured.Unstructured{nil, {}, object(t, deep)} {
			_, _ = c.Met(o)
		}
	})
}

// A Transform may put values into an object that no JSON has.
func TestMetNeverPanics(t *testing.T) {
	path := must(condition.Parse("jsonpath={.a.x}=1"))
	for _, value := range []any{struct{ x int }{1}, make(chan int), func() {}, []struct{ x int }{{1}}} {
		if met, err := path.Met(&unstructured.Unstructured{Object: map[string]any{"a": value}}); met {
			t.Errorf("%T: met, %v", value, err)
		}
	}
}
