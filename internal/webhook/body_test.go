package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// isHonest reads a body token by token, as slow as that is.
func isHonest(body []byte) bool {
	type level struct {
		object, inValue bool
		names           map[string]bool
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var open []*level
	for {
		token, err := d.Token()
		if err != nil {
			return errors.Is(err, io.EOF) && len(open) == 0
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 {
			l := open[len(open)-1]
			name, isText := token.(string)
			if l.object && !l.inValue && isText {
				if l.names[name] {
					return false
				}
				l.names[name], l.inValue = true, true
				continue
			}
			l.inValue = false
		}
		if delim, ok := token.(json.Delim); ok {
			if open = append(open, &level{object: delim == '{', names: map[string]bool{}}); len(open) > maxDepth {
				return false
			}
		}
	}
}

func FuzzCheckBody(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}],"c":"d"}`))
	f.Add([]byte(`{"a":{"a":"a","b":["a","a"]},"\u0061":1}`))
	f.Add([]byte(`{"a":1,"b":"\"a\":","a":2}`))
	f.Add([]byte(`{"k:{\"uid\":1}":{},"k:{\u0022uid\u0022:1}":{},"a\\b":1,"a\u005cb":2}`))
	f.Add([]byte("{\"\xff\":1,\"\xfe\":2}"))
	f.Add([]byte("[" + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + "]"))
	f.Fuzz(func(t *testing.T, body []byte) {
		// What follows a first text is another body.
		if !json.Valid(body) {
			require.Error(t, checkBody(body, maxDepth))
			return
		}
		require.Equal(t, isHonest(body), checkBody(body, maxDepth) == nil, "%s", body)
	})
}

func TestManyMembersAreComparedToo(t *testing.T) {
	var members []string
	for i := range 100000 {
		members = append(members, fmt.Sprintf(`"m%d":{"m":%d}`, i, i))
	}
	require.NoError(t, checkBody([]byte("{"+strings.Join(members, ",")+"}"), maxDepth))
	for n := range 2 * fewNames {
		err := checkBody([]byte("{"+strings.Join(members[:n+1], ",")+`,"m0":1,"x":{}}`), maxDepth)
		require.ErrorContains(t, err, `"m0" is there twice`, "%d members", n)
	}
	for _, again := range []string{"m0", "m31", "m32", "m99999"} {
		err := checkBody([]byte("{"+strings.Join(members, ",")+`,"`+again+`":1}`), maxDepth)
		require.ErrorContains(t, err, `"`+again+`" is there twice`)
	}
}

// BenchmarkCheckBody reads what the API server sends when a Pod is created.
func BenchmarkCheckBody(b *testing.B) {
	body, err := os.ReadFile(filepath.Join("testdata", "pod-review.json"))
	require.NoError(b, err)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := checkBody(body, maxDepth); err != nil {
			b.Fatal(err)
		}
	}
}
