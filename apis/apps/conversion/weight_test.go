package conversion

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// texts are objects of which a part is repeated until they have so many bytes.
func texts(size int) map[string]string {
	out := map[string]string{}
	for name, o := range map[string]struct{ kind, version, before, part, after string }{
		"named subsets":       {"UnitedDeployment", V1beta1, `"status":{"subsetStatuses":[`, `{"name":"%x"}`, `]}`},
		"empty subsets":       {"UnitedDeployment", V1beta1, `"status":{"subsetStatuses":[`, `{}`, `]}`},
		"named alpha subsets": {"UnitedDeployment", V1alpha1, `"status":{"subsetStatuses":[`, `{"name":"%x"}`, `]}`},
		"numbers of subsets":  {"UnitedDeployment", V1alpha1, `"status":{"subsetReplicas":{`, `"%x":1`, `}}`},
		"nested status":       {"UnitedDeployment", V1alpha1, `"status":{"updateStatus":{`, `"%x":{"a":1}`, `}}`},
		"flat strategy":       {"CloneSet", V1alpha1, `"spec":{"updateStrategy":{"inPlaceUpdateStrategy":{`, `"%x":{"a":1}`, `}}}`},
		"nested strategy":     {"CloneSet", V1beta1, `"spec":{"updateStrategy":{"rollingUpdate":{`, `"%x":{"a":1}`, `}}}`},
		"hooks":               {"StatefulSet", V1beta1, `"spec":{"lifecycle":{`, `"%x":{"a":1}`, `}}`},
		"ordinals":            {"StatefulSet", V1beta1, `"spec":{"reserveOrdinals":[`, `1`, `]}`},
		"third template":      {"AdvancedCronJob", V1beta1, `"spec":{"template":{"imageListPullJobTemplate":{`, `"%x":{"a":1}`, `}}}`},
		"labels to match":     {"SidecarSet", V1beta1, `"spec":{"namespaceSelector":{"matchLabels":{`, `"%x":"1"`, `}}}`},
		"annotations":         {"CloneSet", V1alpha1, `"metadata":{"annotations":{`, `"%x":"1"`, `}}`},
		"members":             {"CloneSet", V1alpha1, ``, `"%x":1`, ``},
		"members of metadata": {"CloneSet", V1alpha1, `"metadata":{`, `"%x":1`, `}`},
		"members of a status": {"UnitedDeployment", V1beta1, `"status":{`, `"%x":1`, `}`},
		"a carrier":           {"StatefulSet", V1alpha1, `"metadata":{"annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"{`, `\"%x\":{\"a\":1}`, `}"}}`},
		"spelled carrier":     {"StatefulSet", V1alpha1, `"metadata":{"annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"{`, `\"%x\"\u003a\u007b\"a\"\u003a1}`, `}"}}`},
		"restoring carrier":   {"UnitedDeployment", V1alpha1, `"metadata":{"annotations":{"apps.kruise.io/uniteddeployment-v1beta1-fields":"{\"restore\":{`, `\"%x\":{\"a\":1}`, `}}"}}`},
	} {
		var parts strings.Builder
		for i := 0; parts.Len() < size; i++ {
			if i > 0 {
				parts.WriteByte(',')
			}
			part := o.part
			if strings.Contains(part, "%") {
				part = fmt.Sprintf(part, i)
			}
			parts.WriteString(part)
		}
		out[name] = `{"apiVersion":"` + Group + "/" + o.version + `","kind":"` + o.kind + `",` + o.before + parts.String() + o.after + `}`
	}
	return out
}

// TestMemoryIsAsWeighed compares what is allocated in all, which is some times what is held at a time.
func TestMemoryIsAsWeighed(t *testing.T) {
	const timesText, timesWeight = 12, 7
	for name, text := range texts(256 << 10) {
		version, err := VersionOf([]byte(text))
		require.NoError(t, err)
		var out bytes.Buffer
		var before, after runtime.MemStats
		weight := 0
		runtime.ReadMemStats(&before)
		require.NoError(t, ConvertTextIf(func(bytes int) error { weight = bytes; return nil }, &out, []byte(text), Group+"/"+other(strings.TrimPrefix(version, Group+"/"))), name)
		runtime.ReadMemStats(&after)
		took := int(after.TotalAlloc - before.TotalAlloc)
		require.Less(t, took, timesText*(len(text)+out.Len())+timesWeight*weight, "%s: %d KiB of text weigh %d KiB", name, len(text)>>10, weight>>10)
	}
}

// What an object says to be is read before it is weighed.
func TestWhatIsNoNameOfAKindIsNotDecoded(t *testing.T) {
	parts := strings.TrimSuffix(strings.Repeat(`{"a":1},`, 100_000), ",")
	for _, member := range []string{"kind", "apiVersion"} {
		text := []byte(strings.Replace(`{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet",`, `"`+member+`":"`, `"`+member+`":[`+parts+`],"was":"`, 1) + `"spec":{}}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := ConvertText(&bytes.Buffer{}, text, Group+"/"+V1alpha1)
		runtime.ReadMemStats(&after)
		require.EqualError(t, err, "object has no string "+member)
		require.Less(t, int(after.TotalAlloc-before.TotalAlloc), len(text)/10)
	}
}

func TestUsualObjectsWeighLessThanTheirText(t *testing.T) {
	containers := strings.Repeat(`{"name":"c","image":"registry.example/app:v1","env":[{"name":"A","value":"{a:b}"}]},`, 100)
	text := `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{"name":"web","labels":{"app":"web"},"managedFields":[{"f:a":{}}]},
		"spec":{"replicas":3,"template":{"spec":{"containers":[` + containers + `{}]}},"updateStrategy":{"type":"InPlaceIfPossible","partition":1}}}`
	stop := fmt.Errorf("stop")
	weight := 0
	require.ErrorIs(t, ConvertTextIf(func(bytes int) error { weight = bytes; return stop }, &bytes.Buffer{}, []byte(text), Group+"/"+V1beta1), stop)
	require.Positive(t, weight)
	require.Less(t, weight, len(text))
}
