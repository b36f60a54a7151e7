package conversion

import (
	"encoding/json"

	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// weightOfPart is about what a member or an object takes in trees, with the copies of those that it is in while the way there
// and back is tried: a few bytes, "a":{}, can be two of them. Elements of lists take memory while a carrier is written.
const (
	weightOfPart    = 600
	weightOfElement = 80
)

// weigh is how many bytes what is in reach of an object as text, or sketched, takes as trees.
func (r reach) weigh(object Tree) int {
	weight := 0
	for _, g := range r {
		raw, ok := object[g.member].(json.RawMessage)
		switch {
		case !ok:
		case len(g.below) > 0 && isObject(raw):
			weight += g.below.weighMembers(raw)
		default:
			weight += weigh(raw)
		}
	}
	return weight
}

func (r reach) weighMembers(object []byte) int {
	weight := 0
	for name, value := range rawjson.Members(object) {
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
