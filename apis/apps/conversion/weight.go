package conversion

import (
	"bytes"
	"iter"

	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// weightOfPart is about what a member or an object takes in trees, with the copies of those that it is in while the way there
// and back is tried: a few bytes, "a":{}, can be two of them. Elements of lists take memory while a carrier is written. A member
// that is not looked at is an entry of a tree all the same.
const (
	weightOfPart    = 600
	weightOfElement = 80
	weightOfEntry   = 200
)

// weigh is how many bytes what is in reach of an object as text takes as trees, together with what its carriers hold.
func (m mapping) weigh(object []byte) int {
	weight := m.reach().weighMembers(object)
	for metadata := range membersOf(object, "metadata") {
		for annotations := range membersOf(metadata, "annotations") {
			for _, version := range []string{V1alpha1, V1beta1} {
				for carrier := range membersOf(annotations, CarrierKey(m.kind, version)) {
					weight += weighCarrier(carrier)
				}
			}
		}
	}
	return weight
}

func (r reach) weighMembers(object []byte) int {
	weight := 0
	for name, value := range rawjson.Members(object) {
		weight += weightOfEntry
		switch below, known := r.below(string(name)); {
		case !known:
		case len(below) > 0 && isObject(value):
			weight += below.weighMembers(value)
		default:
			weight += weigh(value)
		}
	}
	return weight
}

// membersOf are the values that an object has under a name: a member may be there more than once.
func membersOf(object []byte, name string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for n, value := range rawjson.Members(object) {
			if string(n) == name && !yield(value) {
				return
			}
		}
	}
}

// weigh counts the objects in a text, their members, and what is between these and between elements.
func weigh(text []byte) int {
	weight := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = rawjson.EndOfString(text, i) - 1
		case '{', ':':
			weight += weightOfPart
		case ',':
			weight += weightOfElement
		}
	}
	return weight
}

// lightString is how long a string is that takes next to nothing even if it is a carrier.
const lightString = 512

// WeighStrings is about how many bytes the carriers in a text take that decodes them. Any long string may be one.
func WeighStrings(text []byte) int {
	weight := 0
	for at := bytes.IndexByte(text, '"'); at >= 0; at = bytes.IndexByte(text, '"') {
		end := rawjson.EndOfString(text, at)
		if end-at > lightString {
			weight += weighCarrier(text[at:end])
		}
		text = text[end:]
	}
	return weight
}

// weighCarrier counts what a carrier holds, which is JSON in a string: there, whatever is spelled by its number may be a brace.
func weighCarrier(text []byte) int {
	return (bytes.Count(text, []byte("{"))+bytes.Count(text, []byte(":"))+bytes.Count(text, []byte(`\u`)))*weightOfPart +
		bytes.Count(text, []byte(","))*weightOfElement
}
