package admission_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/admission/admissiontest"
)

func object(kind, metadata, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"apps.kruise.io/v1beta1","kind":%q,"metadata":{"name":"web"%s},"spec":{%s}}`, kind, metadata, spec)
}

const (
	selector = `"selector":{"matchLabels":{"app":"x"}},`
	template = `"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"main","image":"i"}]}}`
)

// TestWhatWasStoredAlreadyIsNotWrong: an entry of a list is the same wherever it is, and what is wrong in it is judged by its
// value.
func TestWhatWasStoredAlreadyIsNotWrong(t *testing.T) {
	hot := func(name, members string) string {
		return `{"name":"` + name + `","image":"i","ports":[{"containerPort":1,"hostPort":80}],"upgradeStrategy":{"upgradeType":"HotUpgrade","hotUpgradeEmptyImage":"e"}` + members + `}`
	}
	sidecars := func(list ...string) string {
		return object("SidecarSet", "", selector+`"containers":[`+strings.Join(list, ",")+`]`)
	}
	subsets := func(list ...string) string {
		return object("UnitedDeployment", "", selector+`"replicas":1,"template":{"deploymentTemplate":{"metadata":{"labels":{"app":"x"}},"spec":{`+selector+template+`}}},"topology":{"subsets":[`+strings.Join(list, ",")+`]}`)
	}
	claims := func(kind string, names ...string) string {
		var list []string
		for _, n := range names {
			list = append(list, `{"metadata":{"name":"`+n+`"},"spec":{"accessModes":["ReadWriteOnce"]}}`)
		}
		return object(kind, "", selector+template+`,"volumeClaimTemplates":[`+strings.Join(list, ",")+`]`)
	}
	weights := func(list ...string) string {
		return object("CloneSet", "", selector+template+`,"updateStrategy":{"rollingUpdate":{"priorityStrategy":{"weightPriority":[`+strings.Join(list, ",")+`]}}}`)
	}
	weight := func(operator string) string {
		return `{"weight":1,"matchSelector":{"matchExpressions":[{"key":"a","operator":"` + operator + `"}]}}`
	}
	ordinals := func(list string) string {
		return object("StatefulSet", "", selector+template+`,"reserveOrdinals":[`+list+`]`)
	}
	job := func(policy, labels string) string {
		return object("BroadcastJob", labels, `"template":{"spec":{"restartPolicy":"`+policy+`","containers":[{"name":"main","image":"i"}]}}`)
	}
	cron := func(schedule, rest string) string {
		return object("AdvancedCronJob", "", `"schedule":"`+schedule+`",`+rest+`"template":{"jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"m","image":"i"}]}}}}}`)
	}
	const bad, good = `{"name":"b","tolerations":[{"key":"k","operator":"Exists","value":"v"}]}`, `{"name":"a"}`
	for name, c := range map[string]struct {
		old, object string
		refused     map[string]string
	}{
		"a container that moves":           {sidecars(`{"name":"a","image":"i"}`, hot("b", "")), sidecars(hot("b", "")), nil},
		"a container with something else":  {sidecars(hot("b", "")), sidecars(hot("b", `,"env":[{"name":"A"}]`)), nil},
		"another container's mistake":      {sidecars(hot("a", ""), `{"name":"b","image":"i","upgradeStrategy":{"upgradeType":"HotUpgrade","hotUpgradeEmptyImage":"e"}}`), sidecars(`{"name":"a","image":"i","upgradeStrategy":{"upgradeType":"HotUpgrade","hotUpgradeEmptyImage":"e"}}`, hot("b", "")), map[string]string{"spec.containers[1].ports[0].hostPort": "FieldValueInvalid"}},
		"a subset that moves":              {subsets(good, bad), subsets(bad), nil},
		"a subset that others come before": {subsets(bad), subsets(good, bad), nil},
		"a subset with the same mistake":   {subsets(bad), subsets(bad, strings.Replace(bad, `"b"`, `"c"`, 1)), map[string]string{"spec.topology.subsets[1].tolerations[0].value": "FieldValueInvalid"}},
		"claims of one name that move":     {claims("CloneSet", "a", "b", "b"), claims("CloneSet", "b", "b"), nil},
		"one more claim of the name":       {claims("CloneSet", "a", "b", "b"), claims("CloneSet", "b", "b", "b"), map[string]string{"spec.volumeClaimTemplates[2].metadata.name": "FieldValueDuplicate"}},
		"claims of a StatefulSet":          {claims("StatefulSet", "a", "b", "b"), claims("StatefulSet", "b", "b"), nil},
		"a selector that stays":            {weights(weight("Bogus")), weights(`{"weight":2,"matchSelector":{"matchLabels":{"a":"b"}}}`, weight("Bogus")), nil},
		"a selector that is wrong anew":    {weights(weight("Bogus")), weights(weight("In")), map[string]string{"spec.updateStrategy.rollingUpdate.priorityStrategy.weightPriority[0].matchSelector": "FieldValueRequired"}},
		"ordinals that move":               {ordinals(`1,"x"`), ordinals(`"x"`), nil},
		"ordinals that are wrong anew":     {ordinals(`"x"`), ordinals(`"y"`), map[string]string{"spec.reserveOrdinals[0]": "FieldValueInvalid"}},
		"a policy that stays":              {job("Always", ""), job("Always", `,"labels":{"a":"b"}`), nil},
		"a policy that is wrong anew":      {job("Always", ""), job("Sometimes", ""), map[string]string{"spec.template.spec.restartPolicy": "FieldValueInvalid"}},
		"a schedule that stays":            {cron("x", ""), cron("x", `"paused":true,`), nil},
		"a schedule that is wrong anew":    {cron("x", ""), cron("y", ""), map[string]string{"spec.schedule": "FieldValueInvalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			var k admission.Kind
			for kind, candidate := range kinds() {
				if strings.Contains(c.object, `"kind":"`+kind+`"`) {
					k = candidate
				}
			}
			old := admissiontest.Defaulted(t, k, "", c.old)
			require.False(t, admissiontest.Check(t, k, "", old).Allowed, "nothing is wrong before")
			r := admissiontest.Check(t, k, old, admissiontest.Defaulted(t, k, old, c.object))
			require.Equal(t, c.refused == nil, r.Allowed, r.Result)
			if c.refused != nil {
				require.Equal(t, c.refused, admissiontest.Fields(r), r.Result.Message)
			}
		})
	}
}
