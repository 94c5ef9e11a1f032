package jsonsize

import (
	"encoding/json"
	"testing"
)

func TestOf(t *testing.T) {
	tests := []string{
		`{}`, `[]`, `"text"`, `{"a":1}`, `{"metadata":{"name":"a","labels":{"app":"web","tier":"front"}},"spec":{"n":12345,"on":true,"none":null,"list":["a","b",["c"]]}}`,
	}
	for _, text := range tests {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if got, want := Of(v), int64(len(text)); got < want*3/4-5 || got > want*5/4+5 {
			t.Errorf("%s: %d bytes, want about %d", text, got, want)
		}
	}
}
