package webhook

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

const (
	// maxDepth bounds how deep a body may be nested, conversionDepth one of what may be stored: the API server itself reads
	// nothing that is as deep as that.
	maxDepth        = 1000
	conversionDepth = 9999
	// maxMembers bounds how many members an object has, together with those around it. No object that can be stored has as
	// many, and what is stored is to be converted.
	maxMembers = 1 << 18
	// fewNames are compared one by one, others when the object ends.
	fewNames = 32
)

// checkBody refuses bodies that no honest client sends: nested too deep, with more members than anything has, or with a member
// twice, which readers understand differently.
func checkBody(body []byte, depth int) error {
	if err := rawjson.Valid(body); err != nil {
		return fmt.Errorf("reading the body: %w", err)
	}
	// Most bodies need no more than these.
	var levels [32]level
	var names [64][]byte
	w := walk{body: body, depth: depth, open: levels[:0], names: names[:0]}
	return w.run()
}

// walk goes through a body that is valid JSON.
type walk struct {
	body  []byte
	depth int
	// open are the objects and lists around the present place, names those of the members so far of all of them.
	open  []level
	names [][]byte
}

// level is an object or a list that is being read.
type level struct {
	object, inValue bool
	// first is where its names begin.
	first int
}

func (w *walk) run() error {
	for i := 0; i < len(w.body); i++ {
		switch w.body[i] {
		case '{', '[':
			if len(w.open) == w.depth {
				return fmt.Errorf("the body is nested deeper than %d levels", w.depth)
			}
			w.open = append(w.open, level{object: w.body[i] == '{', first: len(w.names)})
		case '}', ']':
			if err := w.close(); err != nil {
				return err
			}
		case ':':
			w.open[len(w.open)-1].inValue = true
		case ',':
			w.open[len(w.open)-1].inValue = false
		case '"':
			end := rawjson.EndOfString(w.body, i)
			if err := w.text(w.body[i:end]); err != nil {
				return err
			}
			i = end - 1
		}
	}
	return nil
}

// text is a string: the name of a member, or a value.
func (w *walk) text(quoted []byte) error {
	if len(w.open) == 0 {
		return nil
	}
	l := &w.open[len(w.open)-1]
	if !l.object || l.inValue {
		return nil
	}
	name, err := spelling(quoted)
	if err != nil {
		return err
	}
	if len(w.names) == maxMembers {
		return fmt.Errorf("the body has more than %d members in an object", maxMembers)
	}
	if names := w.names[l.first:]; len(names) < fewNames && slices.ContainsFunc(names, func(n []byte) bool { return bytes.Equal(n, name) }) {
		return twice(name)
	}
	w.names = append(w.names, name)
	return nil
}

// spelling is the same for all names that mean the same: only quotes and backslashes are escaped, as managed fields have them.
func spelling(quoted []byte) ([]byte, error) {
	name := quoted[1 : len(quoted)-1]
	isSimple := true
	for i := 0; i < len(name); i++ {
		if name[i] == '\\' {
			i++
			isSimple = isSimple && (name[i] == '"' || name[i] == '\\')
		}
		isSimple = isSimple && name[i] < 0x80
	}
	if isSimple {
		return name, nil
	}
	decoded, err := rawjson.String(quoted)
	if err != nil {
		return nil, fmt.Errorf("reading the body: %w", err)
	}
	return []byte(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(decoded)), nil
}

func twice(name []byte) error { return fmt.Errorf("member %q is there twice", name) }

// close ends an object or a list. Names that are too many to have been compared are brought in order.
func (w *walk) close() error {
	last := len(w.open) - 1
	names := w.names[w.open[last].first:]
	if len(names) > fewNames {
		slices.SortFunc(names, bytes.Compare)
		for i := 1; i < len(names); i++ {
			if bytes.Equal(names[i-1], names[i]) {
				return twice(names[i])
			}
		}
	}
	w.open, w.names = w.open[:last], w.names[:w.open[last].first]
	return nil
}
