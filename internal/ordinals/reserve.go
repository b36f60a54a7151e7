// Package ordinals reads which ordinals of a StatefulSet are reserved. They are kept as ranges: what somebody reserves
// may be larger than memory. Everything here is pure.
package ordinals

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Range is a number of ordinals in a row, both ends included.
type Range struct{ First, Last int32 }

// ordinalBits: ordinals are numbers of an int32 that are not negative.
const ordinalBits = 31

var errForm = errors.New(`must be a number from 0 to 2147483647, or a range of them such as "5-9"`)

// Parse reads an entry of reserveOrdinals: a number, or a range as text.
func Parse(entry intstr.IntOrString) (Range, error) {
	if entry.Type == intstr.Int {
		if entry.IntVal < 0 {
			return Range{}, errForm
		}
		return Range{entry.IntVal, entry.IntVal}, nil
	}
	left, right, found := strings.Cut(entry.StrVal, "-")
	first, err := strconv.ParseUint(left, 10, ordinalBits)
	last, lastErr := strconv.ParseUint(right, 10, ordinalBits)
	if !found || err != nil || lastErr != nil {
		return Range{}, errForm
	}
	if first > last {
		return Range{}, fmt.Errorf("the range begins at %d after its end %d", first, last)
	}
	return Range{int32(first), int32(last)}, nil
}

// Merge returns the ranges in order, those that overlap or touch as one.
func Merge(ranges []Range) []Range {
	sorted := slices.SortedFunc(slices.Values(ranges), func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	var merged []Range
	for _, r := range sorted {
		if n := len(merged); n > 0 && int64(r.First) <= int64(merged[n-1].Last)+1 {
			merged[n-1].Last = max(merged[n-1].Last, r.Last)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// Count is how many ordinals are in the ranges, each counted once.
func Count(ranges []Range) int64 {
	var n int64
	for _, r := range Merge(ranges) {
		n += int64(r.Last) - int64(r.First) + 1
	}
	return n
}

// List are ordinals in ascending order, as ranges that neither overlap nor touch.
type List []Range

// Smallest are the n smallest ordinals from start on that are in none of the ranges; fewer if there are not as many.
func Smallest(n int, start int32, reserved []Range) List {
	var out List
	left, next := int64(n), int64(start)
	take := func(before int64) {
		if count := min(left, before-next); count > 0 {
			out, left = append(out, Range{int32(next), int32(next + count - 1)}), left-count
		}
	}
	for _, r := range Merge(reserved) {
		take(int64(r.First))
		next = max(next, int64(r.Last)+1)
	}
	take(math.MaxInt32 + 1)
	return out
}

// Len is how many they are.
func (l List) Len() int {
	n := 0
	for _, r := range l {
		n += r.len()
	}
	return n
}

func (r Range) len() int { return int(int64(r.Last) - int64(r.First) + 1) }

// Rank is how many of them are smaller than the ordinal; false if it is not one of them.
func (l List) Rank(ordinal int32) (int, bool) {
	n := 0
	for _, r := range l {
		if ordinal <= r.Last {
			return n + int(ordinal) - int(r.First), ordinal >= r.First
		}
		n += r.len()
	}
	return n, false
}

// All yields one after the other.
func (l List) All() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for _, r := range l {
			for o := int64(r.First); o <= int64(r.Last); o++ {
				if !yield(int32(o)) {
					return
				}
			}
		}
	}
}
