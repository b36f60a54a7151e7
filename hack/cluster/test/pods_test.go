package test

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestADeploymentRolls(t *testing.T) {
	s := newSpace(t)
	s.do("create", "deployment", "web", "--image=registry.example/app:a", "--replicas=20")
	s.do("wait", "--for=condition=Available", "deployment/web", "--timeout=30s")
	s.do("set", "image", "deployment/web", "app=registry.example/app:b")
	s.do("rollout", "status", "deployment/web", "--timeout=40s")
	s.await("deployment", "web", "{.status.updatedReplicas}/{.status.readyReplicas}", "20/20")
}

func TestAnImageChangeRestartsJustItsContainer(t *testing.T) {
	s := newSpace(t)
	s.apply(`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: a, image: "x/a:1"}, {name: b, image: "x/b:1"}]}}`)
	s.await("pod", "p", ready, "True")
	before := s.object("pod", "p")
	s.do("set", "image", "pod/p", "b=x/b:2")
	s.await("pod", "p", "{.status.containerStatuses[1].image}", "x/b:2")
	after := s.object("pod", "p")
	for _, kept := range [][]any{{"status", "podIP"}, {"metadata", "uid"}, {"status", "containerStatuses", 0}} {
		if b, a := before.at(kept...), after.at(kept...); b == nil || !reflect.DeepEqual(b, a) {
			t.Errorf("%v changed from %v to %v", kept, b, a)
		}
	}
	for _, changed := range []string{"imageID", "containerID"} {
		if before.at("status", "containerStatuses", 1, changed) == after.at("status", "containerStatuses", 1, changed) {
			t.Errorf("%s is the same", changed)
		}
	}
	if n := after.at("status", "containerStatuses", 1, "restartCount"); n != 1.0 {
		t.Errorf("restartCount is %v", n)
	}
	if g := after.at("metadata", "generation"); g == nil || g != after.at("status", "observedGeneration") {
		t.Errorf("generation %v, observed %v", g, after.at("status", "observedGeneration"))
	}
}

func TestReadyFollowsTheReadinessGates(t *testing.T) {
	s := newSpace(t)
	s.apply(pod("p", "1", "", `, readinessGates: [{conditionType: example.com/gate}]`))
	s.await("pod", "p", `{.status.conditions[?(@.type=="ContainersReady")].status}`, "True")
	s.stays("pod", "p", ready, "False", time.Second)
	for _, status := range []string{"True", "False", "True"} {
		s.do("patch", "pod", "p", "--subresource=status", "-p", `{"status":{"conditions":[{"type":"example.com/gate","status":"`+status+`"}]}}`)
		s.await("pod", "p", ready, status)
	}
}

func TestAPodThatNeverGetsReady(t *testing.T) {
	s := newSpace(t)
	s.apply(pod("image", "1-never-ready", "", ""))
	s.apply(pod("note", "1", `sim.flotilla.io/never-ready: "true"`, ""))
	for _, name := range []string{"image", "note"} {
		s.await("pod", name, phase+ready, "RunningFalse")
	}
	s.do("set", "image", "pod/image", "main=registry.example/app:2")
	s.do("annotate", "pod", "note", "sim.flotilla.io/never-ready-")
	for _, name := range []string{"image", "note"} {
		s.await("pod", name, phase+ready, "RunningTrue")
	}
}

func TestAnImageThatCannotBePulled(t *testing.T) {
	s := newSpace(t)
	s.apply(pod("new", "1-no-such-image", "", ""))
	s.await("pod", "new", phase+waiting, "PendingImagePullBackOff")
	s.apply(pod("old", "1", "", ""))
	s.await("pod", "old", ready, "True")
	id := s.object("pod", "old").at("status", "containerStatuses", 0, "imageID")
	s.do("set", "image", "pod/old", "main=registry.example/app:2-no-such-image")
	s.await("pod", "old", phase+ready+waiting, "RunningFalseImagePullBackOff")
	if now := s.object("pod", "old").at("status", "containerStatuses", 0, "imageID"); now != id {
		t.Errorf("imageID went from %v to %v although nothing was pulled", id, now)
	}
	for name, count := range map[string]string{"new": "0", "old": "1"} {
		s.do("set", "image", "pod/"+name, "main=registry.example/app:3")
		s.await("pod", name, ready+restarts, "True"+count)
	}
}

func TestACrashLoop(t *testing.T) {
	s := newSpace(t)
	s.apply(pod("p", "1-crash-loop", "", ""))
	s.await("pod", "p", waiting, "CrashLoopBackOff")
	s.await("pod", "p", restarts, "2")
	s.await("pod", "p", "{.status.containerStatuses[0].lastState.terminated.exitCode}", "1")
	s.do("set", "image", "pod/p", "main=registry.example/app:2")
	s.await("pod", "p", ready, "True")
	s.stays("pod", "p", ready, "True", 2*time.Second)
}

func TestJobsEnd(t *testing.T) {
	s := newSpace(t)
	job := func(name, annotations, spec, policy string) {
		s.apply(`{apiVersion: batch/v1, kind: Job, metadata: {name: ` + name + `}, spec: {` + spec + ` template: {metadata: {annotations: {` + annotations +
			`}}, spec: {restartPolicy: ` + policy + `, containers: [{name: main, image: x}]}}}}`)
	}
	job("good", `sim.flotilla.io/exit-after: "1"`, "completions: 3, parallelism: 3,", "Never")
	job("bad", `sim.flotilla.io/exit-code: "3"`, "backoffLimit: 0,", "Never")
	job("again", `sim.flotilla.io/exit-code: "3"`, "backoffLimit: 6,", "OnFailure")
	s.do("wait", "--for=condition=Complete", "job/good", "--timeout=30s")
	s.do("wait", "--for=condition=Failed", "job/bad", "--timeout=30s")
	if code := s.do("get", "pod", "-l", "job-name=bad", "-o", "jsonpath={.items[0].status.containerStatuses[0].state.terminated.exitCode}"); code != "3" {
		t.Errorf("exit code %s", code)
	}
	s.await("pod", "-ljob-name=again", "{.items[0].status.containerStatuses[0].restartCount}", "1")
}

func TestInPlaceResize(t *testing.T) {
	s := newSpace(t)
	resources := func(cpu string) string { return `{requests: {cpu: ` + cpu + `}, limits: {cpu: ` + cpu + `}}` }
	s.apply(`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: main, image: x, resources: ` + resources("1") + `}]}}`)
	s.await("pod", "p", ready, "True")
	resize := func(cpu string) {
		s.do("patch", "pod", "p", "--subresource=resize", "-p", `{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"`+cpu+`"},"limits":{"cpu":"`+cpu+`"}}}]}}`)
	}
	const actual = "{.status.containerStatuses[0].resources.limits.cpu}/{.status.containerStatuses[0].allocatedResources.cpu}/" + restarts
	const pending = `{.status.conditions[?(@.type=="PodResizePending")].reason}`
	resize("2")
	s.await("pod", "p", actual, "2/2/0")
	s.do("annotate", "pod", "p", "sim.flotilla.io/resize=deferred")
	resize("3")
	s.await("pod", "p", pending, "Deferred")
	s.do("annotate", "--overwrite", "pod", "p", "sim.flotilla.io/resize=infeasible")
	s.await("pod", "p", pending+actual, "Infeasible2/2/0")
	s.do("annotate", "pod", "p", "sim.flotilla.io/resize-")
	s.await("pod", "p", pending+actual, "3/3/0")
}

func TestInitContainersAndSidecars(t *testing.T) {
	s := newSpace(t)
	s.apply(`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {initContainers: [{name: setup, image: "x:1"}, {name: proxy, image: "y:1", restartPolicy: Always}], containers: [{name: main, image: "z:1"}]}}`)
	s.await("pod", "p", ready, "True")
	s.await("pod", "p", "{.status.initContainerStatuses[0].state.terminated.reason}/{.status.initContainerStatuses[1].ready}", "Completed/true")
	s.do("set", "image", "pod/p", "proxy=y:2")
	s.await("pod", "p", "{.status.initContainerStatuses[*].restartCount}/{.status.initContainerStatuses[1].image}/"+restarts, "0 1/y:2/0")
}

func TestDeletionTakesItsTimeAndHonoursFinalizers(t *testing.T) {
	s := newSpace(t)
	s.apply(pod("slow", "1", `sim.flotilla.io/termination-delay: "4"`, ""))
	s.apply(`{apiVersion: v1, kind: Pod, metadata: {name: held, finalizers: [example.com/hold]}, spec: {containers: [{name: main, image: x}]}}`)
	s.await("pod", "slow", ready, "True")
	s.await("pod", "held", ready, "True")
	s.do("delete", "pod", "slow", "held", "--wait=false")
	s.stays("pod", "slow", phase, "Running", 2*time.Second)
	s.await("pod", "held", phase+ready, "FailedFalse")
	s.await("pod", "slow", phase, "")
	s.stays("pod", "held", phase, "Failed", time.Second)
	s.do("patch", "pod", "held", "--type=json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`)
	s.await("pod", "held", phase, "")
}

func TestVolumesBindExpandAndGo(t *testing.T) {
	s := newSpace(t)
	s.apply(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: main, image: x, volumeMounts: [{name: data, mountPath: /data}]}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`)
	s.do("rollout", "status", "statefulset/db", "--timeout=30s")
	s.do("patch", "pvc", "data-db-1", "-p", `{"spec":{"resources":{"requests":{"storage":"5Gi"}}}}`)
	s.await("pvc", "data-db-1", "{.status.phase}/{.status.capacity.storage}", "Bound/5Gi")
	volume := s.do("get", "pvc", "data-db-1", "-o", "jsonpath={.spec.volumeName}")
	s.await("pv", volume, "{.spec.capacity.storage}", "5Gi")
	s.do("delete", "statefulset", "db")
	s.do("delete", "pvc", "data-db-1", "--timeout=20s")
	s.await("pv", volume, "{.metadata.name}", "")
}

func TestANodeFailsAndRecovers(t *testing.T) {
	s := newSpace(t)
	const node = "node-4"
	s.apply(pod("p", "1", "", ", nodeName: "+node+", tolerations: [{operator: Exists}]"))
	s.await("pod", "p", ready, "True")
	s.do("annotate", "node", node, "sim.flotilla.io/not-ready=true")
	s.await("node", node, ready, "False")
	s.await("pod", "p", ready, "False")
	s.stays("pod", "p", ready, "False", 2*time.Second)
	if taints := s.do("get", "node", node, "-o", "jsonpath={.spec.taints[*].key}"); !strings.Contains(taints, "node.kubernetes.io/not-ready") {
		t.Errorf("taints: %s", taints)
	}
	s.do("annotate", "node", node, "sim.flotilla.io/not-ready-")
	s.await("node", node, ready, "True")
	s.await("pod", "p", ready, "True")
}
