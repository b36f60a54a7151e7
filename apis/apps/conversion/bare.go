package conversion

import (
	"bytes"

	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// convertBare changes the version of an object as text and the carrier that says that nothing else was changed. It is its own
// inverse: the way back takes the same memory, so that it is bare as well.
func (m mapping) convertBare(to *bytes.Buffer, data []byte, desired string) {
	mark := ""
	if desired == Group+"/"+V1alpha1 {
		mark = TooLarge
	}
	key := CarrierKey(m.kind, V1beta1)
	rewrite(to, data, func(name string, value []byte) []byte {
		switch name {
		case "apiVersion":
			return quoted(desired)
		case "metadata":
			return rewritten(value, "annotations", func(annotations []byte) []byte { return marked(annotations, key, mark) })
		}
		return value
	})
}

// marked are annotations with another value of a key, or without it; nil for none. They stay as they are where there is no room, or
// where they are something else.
func marked(annotations []byte, key, value string) []byte {
	if len(annotations) > 0 && !isObject(annotations) && !rawjson.IsNull(annotations) {
		return annotations
	}
	room, was := maxAnnotationBytes, ""
	for k, v := range rawjson.Members(annotations) {
		s, err := rawjson.String(v)
		if err != nil {
			return annotations
		}
		if room -= len(k) + len(s); string(k) == key {
			was = s
		}
	}
	switch {
	case value == "" && was != TooLarge, value != "" && len(key)+len(value) > room:
		return annotations
	case value == "":
		return rewritten(annotations, key, func([]byte) []byte { return nil })
	}
	return rewritten(annotations, key, func([]byte) []byte { return quoted(value) })
}

// rewritten is an object with another value of a member, which may not be there before; without it, if there is none. What is no object
// is one without members.
func rewritten(object []byte, member string, value func(was []byte) []byte) []byte {
	var b bytes.Buffer
	found := false
	rewrite(&b, object, func(name string, was []byte) []byte {
		if name == member {
			found = true
			return value(was)
		}
		return was
	})
	if found {
		return b.Bytes()
	}
	v := value(nil)
	if v == nil {
		return b.Bytes()
	}
	b.Truncate(b.Len() - 1)
	if b.Len() > 1 {
		b.WriteByte(',')
	}
	b.Write(quoted(member))
	b.WriteByte(':')
	b.Write(v)
	b.WriteByte('}')
	return b.Bytes()
}

// rewrite appends an object with the values that its members are to have; nil for none.
func rewrite(to *bytes.Buffer, object []byte, value func(name string, was []byte) []byte) {
	to.WriteByte('{')
	first := true
	for name, was := range rawjson.Members(object) {
		v := value(string(name), was)
		if v == nil {
			continue
		}
		if !first {
			to.WriteByte(',')
		}
		first = false
		to.Write(quoted(string(name)))
		to.WriteByte(':')
		to.Write(v)
	}
	to.WriteByte('}')
}

// quoted is a string as JSON.
func quoted(s string) []byte {
	var b bytes.Buffer
	// Every string can be encoded, and a buffer takes all that is written to it.
	_ = encodeTo(&b, s)
	return b.Bytes()
}
