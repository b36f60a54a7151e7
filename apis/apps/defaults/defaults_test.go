package defaults

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestPullPolicyFollowsTheTag(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"nginx": corev1.PullAlways, "nginx:latest": corev1.PullAlways, "nginx:1": corev1.PullIfNotPresent,
		"reg.local:5000/nginx": corev1.PullAlways, "reg.local:5000/nginx:1": corev1.PullIfNotPresent,
		"nginx@sha256:12": corev1.PullIfNotPresent, "nginx:latest@sha256:12": corev1.PullIfNotPresent,
	} {
		require.Equal(t, want, PullPolicyOf(image), image)
	}
}

func TestATemplateIsFilledInAsTheAPIServerWould(t *testing.T) {
	template := &corev1.PodTemplateSpec{}
	require.NoError(t, json.Unmarshal([]byte(`{"spec":{
		"containers":[{"name":"a","image":"x:1","ports":[{"containerPort":80}],"env":[{"name":"n","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
			"livenessProbe":{"httpGet":{"port":80}},"readinessProbe":{"grpc":{"port":1}},"lifecycle":{"preStop":{"httpGet":{"port":1}}}}],
		"initContainers":[{"name":"i","image":"x:1"}],
		"volumes":[{"name":"empty"},{"name":"host","hostPath":{"path":"/"}},{"name":"secret","secret":{"secretName":"s"}},
			{"name":"projected","projected":{"sources":[{"serviceAccountToken":{"path":"p"}},{"downwardAPI":{"items":[{"path":"p","fieldRef":{"fieldPath":"metadata.name"}}]}}]}},
			{"name":"own","ephemeral":{"volumeClaimTemplate":{"spec":{}}}}]}}`), template))
	SetPodTemplate(template)
	got, err := json.Marshal(template.Spec)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"containers":[{"name":"a","image":"x:1","imagePullPolicy":"Always","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
			"ports":[{"containerPort":80,"protocol":"TCP"}],"env":[{"name":"n","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}],
			"livenessProbe":{"httpGet":{"port":80,"path":"/","scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},
			"readinessProbe":{"grpc":{"port":1,"service":""},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},
			"lifecycle":{"preStop":{"httpGet":{"port":1,"path":"/","scheme":"HTTP"}}}}],
		"initContainers":[{"name":"i","image":"x:1","imagePullPolicy":"IfNotPresent","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],
		"volumes":[{"name":"empty","emptyDir":{}},{"name":"host","hostPath":{"path":"/","type":""}},{"name":"secret","secret":{"secretName":"s","defaultMode":420}},
			{"name":"projected","projected":{"defaultMode":420,"sources":[{"serviceAccountToken":{"path":"p","expirationSeconds":3600}},{"downwardAPI":{"items":[{"path":"p","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}]}}]}},
			{"name":"own","ephemeral":{"volumeClaimTemplate":{"metadata":{},"spec":{"resources":{},"volumeMode":"Filesystem"}}}}],
		"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}`, string(got))
}

func TestQuantitiesAreRoundedUpToAThousandth(t *testing.T) {
	list := corev1.ResourceList{"cpu": resource.MustParse("0.1234567"), "memory": resource.MustParse("1Gi")}
	roundResources(list)
	cpu, memory := list["cpu"], list["memory"]
	require.Equal(t, "124m", cpu.String())
	require.Equal(t, "1Gi", memory.String())
}
