package message

import (
	"regexp"

	"github.com/ohler55/ojg/jp"
)

// checkFilters returns what is wrong with the filters of a path, or nothing. What it refuses takes more time than the
// object is large, for an object that somebody has made so, or matches nothing.
func checkFilters(path jp.Expr) (problem string) {
	for _, f := range path {
		if filter, ok := f.(*jp.Filter); ok && problem == "" {
			several := 0
			if problem = checkForm(formOf(filter), &several); problem == "" && several > 1 {
				problem = "must have filters in which at most one operand stands for several values"
			}
		}
	}
	return problem
}

// formOf returns the form of a filter. jp has none of one that is a path alone.
func formOf(f *jp.Filter) (form *jp.Form) {
	defer func() {
		if recover() != nil {
			text := f.String() // [?(PATH)]
			path, _ := jp.ParseString(text[len("[?(") : len(text)-len(")]")])
			form = &jp.Form{Left: path}
		}
	}()
	return f.Inspect()
}

// checkForm counts the operands that stand for several values.
func checkForm(f *jp.Form, several *int) (problem string) {
	switch f.Op {
	case "~=", "=~", "match", "search": // of which all but one compile the expression again for each element
		if _, compiled := f.Right.(*regexp.Regexp); !compiled || f.Op == "match" || f.Op == "search" {
			return "must have regular expressions between slashes, as in [?(@.name =~ /token$/)]"
		}
	}
	for _, operand := range []any{f.Left, f.Right} {
		switch operand := operand.(type) {
		case *jp.Form:
			problem = checkForm(operand, several)
		case jp.Expr:
			problem = checkOperand(operand, several)
		}
		if problem != "" {
			return problem
		}
	}
	return ""
}

func checkOperand(path jp.Expr, several *int) (problem string) {
	many := false
	for _, f := range path {
		switch f.(type) {
		case jp.Descent:
			return "must have no .. in a filter"
		case jp.Root:
			return "must have no $ in a filter: it compares what is in one element"
		case jp.Wildcard, jp.Union, jp.Slice, *jp.Filter:
			many = true
		}
	}
	if many {
		*several++
	}
	return checkFilters(path)
}
