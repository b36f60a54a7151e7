package conversion

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// scribble writes a value in one of the many ways in which it may be written.
func scribble(r *rand.Rand, b *strings.Builder, v any) {
	space := func() {
		for r.IntN(6) == 0 {
			b.WriteByte(" \n\t\r"[r.IntN(4)])
		}
	}
	space()
	switch v := v.(type) {
	case Tree:
		b.WriteByte('{')
		names := sortedKeys(v)
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for i, k := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			quote(r, b, k)
			space()
			b.WriteByte(':')
			scribble(r, b, v[k])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			scribble(r, b, v[i])
		}
		b.WriteByte(']')
	case string:
		quote(r, b, v)
	case nil:
		b.WriteString("null")
	default:
		fmt.Fprint(b, v)
	}
	space()
}

func quote(r *rand.Rand, b *strings.Builder, s string) {
	b.WriteByte('"')
	escape := r.IntN(8) == 0
	for _, c := range s {
		switch {
		case escape && c < 0x10000 && r.IntN(3) == 0:
			fmt.Fprintf(b, `\u%04x`, c)
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < ' ':
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
}

func asText(data []byte, desired string) ([]byte, error) {
	out := bytes.NewBufferString("before")
	err := ConvertText(out, data, desired)
	rest, ok := bytes.CutPrefix(out.Bytes(), []byte("before"))
	if !ok || err != nil && len(rest) > 0 {
		return rest, fmt.Errorf("something else than the result was written: %q, %w", out, err)
	}
	return rest, err
}

// sameAsTrees converts a text as ConvertText does and by decoding everything, and wants the same.
func sameAsTrees(t *testing.T, text, version string) {
	t.Helper()
	x := parse(t, text)
	want := encode(t, convert(t, x, version))
	out, err := asText([]byte(text), Group+"/"+version)
	require.NoError(t, err, text)
	if got := encode(t, parse(t, string(out))); got != want {
		t.Fatalf("to %s\ninput    %s\nby trees %s\nby text  %s", version, text, want, got)
	}
}

func TestConvertTextIsConvertOnRandomObjects(t *testing.T) {
	random(t, objectsPerDirection/5, func(t *testing.T, g generator, x Tree, _, version string) {
		var b strings.Builder
		scribble(g.r, &b, x)
		text := b.String()
		require.Equal(t, encode(t, x), encode(t, parse(t, text)), "the test writes something else than it means")
		sameAsTrees(t, text, other(version))
		same, err := asText([]byte(text), Group+"/"+version)
		require.NoError(t, err)
		require.Equal(t, text, string(same))
	})
}

func TestConvertTextIsConvertOnExamples(t *testing.T) {
	for name, e := range examples() {
		t.Run(name, func(t *testing.T) {
			x := encode(t, object(t, e.kind, e.from, e.is))
			sameAsTrees(t, x, other(e.from))
			sameAsTrees(t, encode(t, convert(t, parse(t, x), other(e.from))), e.from)
		})
	}
}

func TestConvertTextLeavesTheSpellingOfWhatItDoesNotLookAt(t *testing.T) {
	const template = `{"z":1.50,"a":[9007199254740993,1E5,null,{}],"s":"\u00e4<&>"}`
	text := fmt.Sprintf(`{"kind":"CloneSet","spec":{"template":%s,"updateStrategy":{"type":"InPlaceOnly"}},"apiVersion":"apps.kruise.io/v1alpha1"}`, template)
	out, err := asText([]byte(text), Group+"/"+V1beta1)
	require.NoError(t, err)
	require.Equal(t, `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","spec":{"scaleStrategy":{"enablePVCReuse":true},"template":`+template+
		`,"updateStrategy":{"rollingUpdate":{"podUpdatePolicy":"InPlaceOnly"},"type":"RollingUpdate"}}}`, string(out))
}

func TestConvertTextRestoresWhatOnlyACarrierKnows(t *testing.T) {
	const text = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{"annotations":{"apps.kruise.io/cloneset-v1beta1-fields":%q}},"spec":{"template":{"b":{"x":1}}}}`
	for name, entry := range map[string]string{
		"beside what is looked at":         `"/spec/template":{"from":{"b":{"x":1}},"to":5}`,
		"below what is not looked at":      `"/spec/template/b":{"from":{"x":1},"to":{"x":2}}`,
		"not where the text is another":    `"/spec/template/b":{"from":{"x":1.0},"to":{"x":2}}`,
		"in place of all":                  `"/spec":{"from":{"template":{"b":{"x":1}},"scaleStrategy":{"enablePVCReuse":true}},"to":{}}`,
		"with a name that has escapes":     `"/spec/templat\u0065":{"from":{"b":{"x":1}},"to":5}`,
		"where nothing is":                 `"/spec/more":{"to":[1]}`,
		"where there is something already": `"/spec/template":{"to":[1]}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, member := range []string{"restore", `rest\u006fre`} {
				sameAsTrees(t, fmt.Sprintf(text, `{"`+member+`":{`+entry+`}}`), V1beta1)
			}
		})
	}
}

func TestConvertTextFailsAsConvertDoes(t *testing.T) {
	for name, c := range map[string]struct{ text, to, says string }{
		"an unknown kind":    {`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"Foo"}`, "apps.kruise.io/v1beta1", "Foo"},
		"an unknown version": {`{"apiVersion":"apps.kruise.io/v2","kind":"CloneSet"}`, "apps.kruise.io/v1beta1", "v2"},
		"an unknown wish":    {`{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet"}`, "apps.kruise.io/v9", "v9"},
		"a kind of no text":  {`{"apiVersion":"apps.kruise.io/v1beta1","kind":{}}`, "apps.kruise.io/v1beta1", "kind"},
		"a list":             {`[]`, "apps.kruise.io/v1beta1", "not a JSON object"},
		"nothing":            {``, "apps.kruise.io/v1beta1", "not a JSON object"},
		"null":               {`null`, "apps.kruise.io/v1beta1", "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := asText([]byte(c.text), c.to)
			require.ErrorContains(t, err, c.says)
		})
	}
}

// FuzzConvertText begins with texts as they are written and with what hostile clients make of them.
func FuzzConvertText(f *testing.F) {
	for i, kind := range kinds() {
		g := generator{r: rand.New(rand.NewPCG(1, uint64(i))), wild: 12}
		for _, version := range []string{V1alpha1, V1beta1} {
			data, err := Encode(g.object(kind, version))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		for _, version := range []string{V1alpha1, V1beta1} {
			out, err := asText(data, Group+"/"+version)
			x, wrong := Decode(data)
			if wrong != nil {
				require.Error(t, err)
				continue
			}
			want, wrong := Convert(x, Group+"/"+version)
			require.Equal(t, wrong == nil, err == nil, "%v, %v", wrong, err)
			if err == nil {
				require.Equal(t, encode(t, want), encode(t, parse(t, string(out))))
			}
		}
	})
}
