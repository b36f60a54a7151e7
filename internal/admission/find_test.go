package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPlaceIsTheSameWhereverItIsInAList(t *testing.T) {
	object := []byte(`{"a":{"b":[{"name":"x","c":1},{"c":[2,3]}],"d.e":4},"f":{"g/h[i":5,"j.k":{"l":6}}}`)
	for path, want := range map[string][2]string{
		"a.b[0].c":    {"/a/b/x/c", "1"},
		"a.b[1].c[1]": {"/a/b//c/", "3"},
		"f[j.k].l":    {"/f/j.k/l", "6"},
		"f[g/h[i]":    {"/f/g/h[i", "5"},
		"a.b[2].c":    {"/a/b//c", ""},
		"a.b[x]":      {"/a/b/", ""},
		"a.b[-1]":     {"/a/b/", ""},
		"none.of[3]":  {"/none/of/3", ""},
		"a.b[0":       {"/a/b/[0", ""},
		"":            {"", string(object)},
	} {
		place, value := find(object, path)
		require.Equal(t, want, [2]string{place, string(value)}, path)
	}
}

func FuzzFind(f *testing.F) {
	f.Add([]byte(`{"a":[{"name":"b"}]}`), "a[0].name")
	f.Add([]byte(`[`), "[0")
	f.Fuzz(func(_ *testing.T, object []byte, path string) { find(object, path) })
}
