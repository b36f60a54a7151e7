package admission

import (
	"encoding/json"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// mostMistakes is how many are looked for in what was stored: it takes time, and nobody's object has as many.
const mostMistakes = 4 * maxCauses

// Ratchet drops what was wrong before as well: a value that was stored already and is unchanged is not wrong. An entry of a
// list is the same wherever it is there. before are all mistakes of old, errs those of object.
func Ratchet(errs, before field.ErrorList, old, object any) field.ErrorList {
	if len(errs) == 0 || len(before) == 0 || len(errs) > mostMistakes {
		return errs
	}
	was, wasErr := json.Marshal(old)
	is, isErr := json.Marshal(object)
	if wasErr != nil || isErr != nil {
		return errs
	}
	known := map[mistake]int{}
	for _, e := range before[:min(len(before), mostMistakes)] {
		known[mistakeOf(e, was)]++
	}
	var fresh field.ErrorList
	for _, e := range errs {
		// The same mistake made once more is another one.
		if m := mistakeOf(e, is); known[m] > 0 {
			known[m]--
		} else {
			fresh = append(fresh, e)
		}
	}
	return fresh
}

// mistake is what makes two errors the same: what is said, of which value, and where, but for the order of lists.
type mistake struct{ text, value, place string }

func mistakeOf(e *field.Error, object []byte) mistake {
	place, value := find(object, e.Field)
	return mistake{e.ErrorBody(), string(value), place}
}

// find follows the path of a field. Of the place that it returns entries of lists have their names instead of their indices, or
// neither. There is no value where the path leads nowhere.
func find(value []byte, path string) (string, []byte) {
	var place strings.Builder
	for path != "" {
		var step string
		switch end := strings.IndexByte(path, ']'); {
		case path[0] == '.':
			path = path[1:]
			continue
		case path[0] != '[' || end < 0:
			if end = strings.IndexAny(path[1:], ".["); end < 0 {
				end = len(path) - 1
			}
			step, path = path[:end+1], path[end+1:]
			value = rawjson.Member(value, step)
		case isOpen(value, '['):
			value, path = element(value, path[1:end]), path[end+1:]
			if name, err := rawjson.String(rawjson.Member(value, "name")); err == nil {
				step = name
			}
		default:
			step, path = path[1:end], path[end+1:]
			value = rawjson.Member(value, step)
		}
		place.WriteByte('/')
		place.WriteString(step)
	}
	return place.String(), value
}

// element is nil where there is none.
func element(list []byte, index string) []byte {
	n, err := strconv.Atoi(index)
	if err != nil {
		return nil
	}
	for value := range rawjson.Elements(list) {
		if n == 0 {
			return value
		}
		n--
	}
	return nil
}
