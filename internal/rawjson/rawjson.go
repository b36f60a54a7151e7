// Package rawjson finds single members of a JSON text and leaves the rest unread: who needs five members of an object of some
// kilobytes need not decode the others. Nothing is copied and nothing is checked on the way, so texts are to be valid; of
// others a part is seen, and no more happens.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
)

// Valid refuses what is not exactly one JSON text, and says where it goes wrong.
func Valid(text []byte) error {
	if json.Valid(text) {
		return nil
	}
	// Only now is it worth to find out why.
	var into json.RawMessage
	return json.Unmarshal(text, &into) //nolint:wrapcheck // The caller says what was read.
}

// Members are the names of an object, decoded, with the values as they are written, in that order; none, if the text is of
// something else.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		i := space(object, 0)
		if i == len(object) || object[i] != '{' {
			return
		}
		for i++; ; {
			i = Next(object, i)
			if i == len(object) || object[i] != '"' {
				return
			}
			from := i
			i = End(object, from)
			name, ok := decode(object[from:i])
			if !ok {
				return
			}
			from = Next(object, i)
			if i = End(object, from); i == from || !yield(name, object[from:i]) {
				return
			}
		}
	}
}

// Member is the value of a member, as it is written; nil, if there is none.
func Member(object []byte, name string) []byte {
	for n, value := range Members(object) {
		if string(n) == name {
			return value
		}
	}
	return nil
}

// Elements are those of a list, as they are written; none, if the text is of something else.
func Elements(list []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := space(list, 0)
		if i == len(list) || list[i] != '[' {
			return
		}
		for i++; ; {
			from := Next(list, i)
			if i = End(list, from); i == from || !yield(list[from:i]) {
				return
			}
		}
	}
}

var errNoString = errors.New("must be a string")

// IsNull tells whether there is nothing, or a null.
func IsNull(text []byte) bool { return len(text) == 0 || string(text) == "null" }

// String decodes a string; a null is an empty one.
func String(text []byte) (string, error) {
	if IsNull(text) {
		return "", nil
	}
	out, ok := decode(text)
	if !ok {
		return "", errNoString
	}
	return string(out), nil
}

// Says tells whether the text is that string. It is for names that most texts have: nothing is copied.
func Says(text []byte, what string) bool {
	out, ok := decode(text)
	return ok && string(out) == what
}

// decode is what a string says. Most are what is between their quotes.
func decode(text []byte) ([]byte, bool) {
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return nil, false
	}
	if isPlain(text) {
		return text[1 : len(text)-1], true
	}
	var out string
	err := json.Unmarshal(text, &out)
	return []byte(out), err == nil
}

// isPlain tells whether a string means what is written: without escapes, and without bytes that may be no text.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c == '\\' || c >= 0x80 {
			return false
		}
	}
	return true
}

// space is the first place from i on that is no white space.
func space(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// Next is the first place from i on that is neither white space nor between two members or elements.
func Next(text []byte, i int) int {
	i = space(text, i)
	if i < len(text) && (text[i] == ',' || text[i] == ':') {
		i = space(text, i+1)
	}
	return i
}

// End is where the value at i ends; i, if there is none.
func End(text []byte, i int) int {
	if i == len(text) {
		return i
	}
	switch text[i] {
	case '"':
		return EndOfString(text, i)
	case '{', '[':
		return endOfNested(text, i)
	}
	for i < len(text) && bytes.IndexByte([]byte(",]}: \n\t\r"), text[i]) < 0 {
		i++
	}
	return i
}

func endOfNested(text []byte, i int) int {
	for depth := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = EndOfString(text, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return i
}

// EndOfString is behind the closing quote of the string that opens at i.
func EndOfString(text []byte, i int) int {
	for at := i + 1; at < len(text); at++ {
		next := bytes.IndexByte(text[at:], '"')
		if next < 0 {
			break
		}
		at += next
		first := at
		for first > i+1 && text[first-1] == '\\' {
			first--
		}
		if (at-first)%2 == 0 {
			return at + 1
		}
	}
	return len(text)
}

// Reader decodes strings, and keeps the first error with the place that it is given.
type Reader struct{ Err error }

// Text is String.
func (r *Reader) Text(text []byte, place string) string {
	out, err := String(text)
	if err != nil && r.Err == nil {
		r.Err = fmt.Errorf("%s: %w", place, err)
	}
	return out
}
