package rawjson

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMembersAndElementsAreFoundAsTheyAreWritten(t *testing.T) {
	got := map[string]string{}
	for name, value := range Members([]byte(" {\n \"a\" : 1e3 , \"b\":\"x,\\\"}\" ,\"c\":{\"d\":[1,{\"e\":\"]\"}]}, \"\\u0066\":null, \"g\\\"\": true,\"h\":[] }  ")) {
		got[string(name)] = string(value)
	}
	require.Equal(t, map[string]string{"a": "1e3", "b": `"x,\"}"`, "c": `{"d":[1,{"e":"]"}]}`, "f": "null", `g"`: "true", "h": "[]"}, got)

	var list []string
	for value := range Elements([]byte(` [ 1, "a,]" ,{"b":[2]},[[]] , null ]`)) {
		list = append(list, string(value))
	}
	require.Equal(t, []string{"1", `"a,]"`, `{"b":[2]}`, "[[]]", "null"}, list)
	for _, text := range []string{"", "5", `"a"`, "null", "{}", "[]", " { } ", " [ ] "} {
		for name := range Members([]byte(text)) {
			t.Errorf("%q has a member %q", text, name)
		}
		for value := range Elements([]byte(text)) {
			t.Errorf("%q has an element %q", text, value)
		}
	}
}

func TestStringsAreDecoded(t *testing.T) {
	for text, want := range map[string]string{`"a"`: "a", `""`: "", "null": "", "": "", `"\u00e4\n"`: "ä\n", `"ä"`: "ä"} {
		got, err := String([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"5", "true", "{}", `"`, `"a`, `"\x"`} {
		_, err := String([]byte(text))
		require.Error(t, err, text)
	}
}

// FuzzMembers compares with a decoder, which sees the same in what is valid. In what is not only the end counts.
func FuzzMembers(f *testing.F) {
	f.Add([]byte(`{"a":{"b":"c\"}"},"d":[1,{}],"\u0061b":-1.5e3,"":null}`))
	f.Add([]byte(`[{"a":1},[],"]",true]`))
	f.Add([]byte(`{"a" "b":]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		members, elements := map[string]string{}, []string{}
		for name, value := range Members(text) {
			members[string(name)] = string(value)
		}
		for value := range Elements(text) {
			elements = append(elements, string(value))
		}
		if !json.Valid(text) {
			return
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) == nil {
			require.Len(t, members, len(object))
			for name, value := range object {
				require.Equal(t, string(value), members[name])
			}
		}
		var list []json.RawMessage
		if json.Unmarshal(text, &list) == nil {
			require.Equal(t, fmt.Sprintf("%s", list), fmt.Sprint(elements))
		}
	})
}
