package webhook

import (
	"fmt"
	"strings"

	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

const (
	// maxDepth bounds how deep a body may be nested.
	maxDepth = 1000
	// fewNames are compared one by one: that takes less than to keep them in a map.
	fewNames = 32
)

// checkBody refuses bodies that no honest client sends: nested too deep, or with a member twice, which readers understand
// differently.
func checkBody(body []byte) error {
	if err := rawjson.Valid(body); err != nil {
		return fmt.Errorf("reading the body: %w", err)
	}
	// Most bodies need no more than these.
	var levels [32]level
	var names [64][]byte
	w := walk{body: body, open: levels[:0], names: names[:0]}
	return w.run()
}

// walk goes through a body that is valid JSON.
type walk struct {
	body []byte
	// open are the objects and lists around the present place, names those of the members so far of all of them.
	open  []level
	names [][]byte
}

// level is an object or a list that is being read.
type level struct {
	object, inValue bool
	// first is where its names begin, seen what they are where there are many.
	first int
	seen  map[string]struct{}
}

func (w *walk) run() error {
	for i := 0; i < len(w.body); i++ {
		switch w.body[i] {
		case '{', '[':
			if len(w.open) == maxDepth {
				return fmt.Errorf("the body is nested deeper than %d levels", maxDepth)
			}
			w.open = append(w.open, level{object: w.body[i] == '{', first: len(w.names)})
		case '}', ']':
			last := len(w.open) - 1
			w.open, w.names = w.open[:last], w.names[:w.open[last].first]
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
	if w.isThere(l, name) {
		return fmt.Errorf("member %q is there twice", name)
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

// isThere tells whether the level has a member of that name already.
func (w *walk) isThere(l *level, name []byte) bool {
	names := w.names[l.first:]
	if len(names) < fewNames {
		for _, n := range names {
			if string(n) == string(name) {
				return true
			}
		}
		return false
	}
	if l.seen == nil {
		l.seen = make(map[string]struct{}, 2*fewNames)
		for _, n := range names {
			l.seen[string(n)] = struct{}{}
		}
	}
	_, there := l.seen[string(name)]
	l.seen[string(name)] = struct{}{}
	return there
}
