package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxDepth bounds how deep a body may be nested.
const maxDepth = 1000

// checkBody refuses bodies that no honest client sends: nested too deep, or with a member twice, which readers understand
// differently.
func checkBody(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var open []level
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			if len(open) > 0 {
				return errors.New("the body is cut off")
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the body: %w", err)
		}
		if delim, ok := token.(json.Delim); ok {
			switch delim {
			case '{', '[':
				if len(open) > 0 {
					open[len(open)-1].value()
				}
				if open = append(open, level{object: delim == '{'}); len(open) > maxDepth {
					return fmt.Errorf("the body is nested deeper than %d levels", maxDepth)
				}
			default:
				open = open[:len(open)-1]
			}
			continue
		}
		if len(open) == 0 {
			continue
		}
		if err := open[len(open)-1].token(token); err != nil {
			return err
		}
	}
}

// level is an object or a list that is being read.
type level struct {
	object, inValue bool
	names           map[string]struct{}
}

// token is a name or a value of the level.
func (l *level) token(token json.Token) error {
	name, isText := token.(string)
	if !l.object || l.inValue || !isText {
		l.value()
		return nil
	}
	if _, twice := l.names[name]; twice {
		return fmt.Errorf("member %q is there twice", name)
	}
	if l.names == nil {
		l.names = map[string]struct{}{}
	}
	l.names[name] = struct{}{}
	l.inValue = true
	return nil
}

// value ends the member that is being read.
func (l *level) value() { l.inValue = false }
