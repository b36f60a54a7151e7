package ordinals

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestScenario27FormsOfEntries(t *testing.T) {
	for entry, want := range map[intstr.IntOrString]Range{
		intstr.FromInt32(0):                        {0, 0},
		intstr.FromInt32(math.MaxInt32):            {math.MaxInt32, math.MaxInt32},
		intstr.FromString("0003-005"):              {3, 5},
		intstr.FromString("3-3"):                   {3, 3},
		intstr.FromString("0-2000000000"):          {0, 2000000000},
		intstr.FromString("0-2147483647"):          {0, math.MaxInt32},
		intstr.FromString("2147483647-2147483647"): {math.MaxInt32, math.MaxInt32},
	} {
		got, err := Parse(entry)
		require.NoError(t, err, entry)
		require.Equal(t, want, got)
	}
	for _, entry := range []intstr.IntOrString{
		intstr.FromInt32(-1), intstr.FromString("12"), intstr.FromString("5-3"), intstr.FromString("1-2-3"), intstr.FromString("1 - 3"),
		intstr.FromString("a-b"), intstr.FromString("1-%"), intstr.FromString(""), intstr.FromString("-1"), intstr.FromString("-"),
		intstr.FromString("+1-2"), intstr.FromString("1_0-20"), intstr.FromString("0-2147483648"), intstr.FromString("0x1-2"),
	} {
		_, err := Parse(entry)
		require.Error(t, err, entry)
	}
}

// TestCountIsThatOfASet compares with counting one by one.
func TestCountIsThatOfASet(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		var ranges []Range
		set := map[int32]bool{}
		for range r.IntN(6) {
			first := r.Int32N(30)
			last := first + r.Int32N(8)
			ranges = append(ranges, Range{first, last})
			for o := first; o <= last; o++ {
				set[o] = true
			}
		}
		require.EqualValues(t, len(set), Count(ranges), ranges)
		for i, m := range Merge(ranges) {
			require.True(t, i == 0 || Merge(ranges)[i-1].Last+1 < m.First, "apart and in order")
		}
	}
	require.EqualValues(t, int64(math.MaxInt32)+1, Count([]Range{{5, math.MaxInt32}, {0, math.MaxInt32}}))
}

func TestWantedOrdinals(t *testing.T) {
	for _, c := range []struct {
		n        int
		start    int32
		reserved []Range
		wanted   []int32
	}{
		{4, 0, []Range{{1, 1}}, []int32{0, 2, 3, 4}},
		{4, 0, []Range{{1, 1}, {3, 3}}, []int32{0, 2, 4, 5}},
		{3, 0, []Range{{1, 1}, {3, 3}}, []int32{0, 2, 4}},
		{3, 0, nil, []int32{0, 1, 2}},
		{4, 0, []Range{{7, 7}, {2, 5}}, []int32{0, 1, 6, 8}},
		{3, 0, []Range{{0, 0}, {2, 5}}, []int32{1, 6, 7}},
		{1, 0, []Range{{0, 0}}, []int32{1}},
		{3, 0, []Range{{3, 3}, {4, 4}, {5, 5}}, []int32{0, 1, 2}},
		{5, 0, []Range{{4, 4}, {5, 5}}, []int32{0, 1, 2, 3, 6}},
		{3, 2, nil, []int32{2, 3, 4}},
		{3, 2, []Range{{0, 0}, {4, 4}}, []int32{2, 3, 5}},
		{3, 2, []Range{{0, 0}, {2, 5}}, []int32{6, 7, 8}},
		{4, 1, []Range{{1, 1}, {3, 4}}, []int32{2, 5, 6, 7}},
		{4, 2, []Range{{1, 1}, {3, 3}}, []int32{2, 4, 5, 6}},
		{9, 2, []Range{{3, 4}}, []int32{2, 5, 6, 7, 8, 9, 10, 11, 12}},
		{2, 0, []Range{{0, 2000000000}}, []int32{2000000001, 2000000002}},
		{2, 0, []Range{{0, math.MaxInt32 - 1}}, []int32{math.MaxInt32}},
		{0, 0, nil, []int32{}},
	} {
		list := Smallest(c.n, c.start, c.reserved)
		require.Equal(t, c.wanted, slices.AppendSeq([]int32{}, list.All()), "%+v", c)
		require.Equal(t, len(c.wanted), list.Len())
		for rank, ordinal := range c.wanted {
			got, is := list.Rank(ordinal)
			require.True(t, is)
			require.Equal(t, rank, got)
		}
		for _, r := range c.reserved {
			_, is := list.Rank(r.Last)
			require.False(t, is, "%d is reserved", r.Last)
		}
		_, is := list.Rank(c.start - 1)
		require.False(t, is)
	}
}

func TestMoreOrdinalsThanMemoryHolds(t *testing.T) {
	list := Smallest(math.MaxInt32, 0, nil)
	require.Equal(t, math.MaxInt32, list.Len())
	rank, is := list.Rank(math.MaxInt32 - 1)
	require.True(t, is)
	require.Equal(t, math.MaxInt32-1, rank)
	require.Equal(t, math.MaxInt32-4, Smallest(math.MaxInt32, 5, nil).Len(), "there are no more")
}
