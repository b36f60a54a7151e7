// Package ordinals reads which ordinals of a StatefulSet are reserved. They are kept as ranges: what somebody reserves
// may be larger than memory. Everything here is pure.
package ordinals

import (
	"cmp"
	"errors"
	"fmt"
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

// Smallest are the n smallest ordinals from start on that are in none of the ranges; fewer if there are not as many.
func Smallest(n int, start int32, reserved []Range) []int32 {
	out := make([]int32, 0, n)
	merged := Merge(reserved)
	for next := int64(start); len(out) < n && next <= math.MaxInt32; next++ {
		for len(merged) > 0 && int64(merged[0].Last) < next {
			merged = merged[1:]
		}
		if len(merged) > 0 && int64(merged[0].First) <= next {
			next = int64(merged[0].Last)
			continue
		}
		out = append(out, int32(next))
	}
	return out
}
