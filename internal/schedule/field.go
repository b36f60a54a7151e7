package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// fieldRange is what a field may hold.
type fieldRange struct {
	name        string
	first, last int
	// words stand for the numbers from first on.
	words []string
}

// parse reads a list. A field is starred if a part of it is * or ? without a step above 1.
func (f fieldRange) parse(text string) (matches bits, starred bool, err error) {
	for part := range strings.SplitSeq(text, ",") {
		m, star, err := f.parsePart(part)
		if err != nil {
			return 0, false, fmt.Errorf("%s %q: %w", f.name, text, err)
		}
		matches, starred = matches|m, starred || star
	}
	return matches, starred, nil
}

func (f fieldRange) parsePart(text string) (matches bits, starred bool, err error) {
	span, stepText, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		if step, err = number(stepText); err != nil || step < 1 {
			return 0, false, fmt.Errorf("the step %q must be a number of at least 1", stepText)
		}
	}
	low, high := f.first, f.last
	if span == "*" || span == "?" {
		starred = step == 1
	} else {
		from, to, ranged := strings.Cut(span, "-")
		if low, err = f.value(from); err != nil {
			return 0, false, err
		}
		switch {
		case ranged:
			if high, err = f.value(to); err != nil {
				return 0, false, err
			}
		case !stepped:
			high = low
		}
		if low > high {
			return 0, false, fmt.Errorf("the range %s ends before it begins", span)
		}
	}
	for n := low; n <= high; n += step {
		matches |= 1 << n
	}
	return matches, starred, nil
}

func (f fieldRange) value(text string) (int, error) {
	if i := slices.Index(f.words, strings.ToLower(text)); i >= 0 {
		return f.first + i, nil
	}
	n, err := number(text)
	if err != nil || n < f.first || n > f.last {
		return 0, fmt.Errorf("%q is not from %d to %d", text, f.first, f.last)
	}
	return n, nil
}

// number reads digits and nothing else.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return int(n), nil
}
