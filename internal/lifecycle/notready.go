package lifecycle

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// Key is held by a party that wants a Pod not to be ready.
type Key struct {
	UserAgent string `json:"userAgent"`
	Key       string `json:"key"`
}

const userAgent = "Lifecycle"

// PreDeleteKey is held in state PreparingDelete.
func PreDeleteKey() Key { return Key{UserAgent: userAgent, Key: "preDeleteHook"} }

// PreUpdateKey is held from PreparingUpdate until the update is over.
func PreUpdateKey() Key { return Key{UserAgent: userAgent, Key: "preUpdateHook"} }

// Keys are those that are held on the Pod. Text that is not a list of keys counts as none.
func Keys(p *corev1.Pod) []Key {
	c := pods.Condition(p, pub.KruisePodReady)
	if c == nil {
		return nil
	}
	var keys []Key
	if json.Unmarshal([]byte(c.Message), &keys) != nil {
		return nil
	}
	return keys
}

// IsAnswered says whether the Pod is marked ready, or somebody marks it not ready. A mark with an empty list of keys, or with a
// status that is neither, is nobody's.
func IsAnswered(p *corev1.Pod) bool {
	c := pods.Condition(p, pub.KruisePodReady)
	switch {
	case c == nil:
		return false
	case c.Status == corev1.ConditionTrue:
		return true
	case len(Keys(p)) > 0:
		return true
	}
	return c.Status == corev1.ConditionFalse && c.Message != "" && c.Message != "[]"
}

// Hold returns the condition with the key added, and false if it is there already.
func Hold(p *corev1.Pod, key Key, now time.Time) (corev1.PodCondition, bool) {
	keys := Keys(p)
	held := slices.Contains(keys, key)
	if c := pods.Condition(p, pub.KruisePodReady); held && c.Status == corev1.ConditionFalse {
		return *c, false
	}
	if !held {
		keys = append(keys, key)
	}
	return keysCondition(keys, now), true
}

// Release returns the condition with the keys taken out, and false if none of them is there.
func Release(p *corev1.Pod, now time.Time, released ...Key) (corev1.PodCondition, bool) {
	keys := Keys(p)
	kept := slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { return slices.Contains(released, k) })
	if len(kept) == len(keys) {
		return corev1.PodCondition{}, false
	}
	return keysCondition(kept, now), true
}

// keysCondition is False while any key is held.
func keysCondition(keys []Key, now time.Time) corev1.PodCondition {
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.UserAgent, b.UserAgent), cmp.Compare(a.Key, b.Key))
	})
	status := corev1.ConditionTrue
	message := "[]"
	if len(keys) > 0 {
		status = corev1.ConditionFalse
		// A list of pairs of strings always encodes.
		raw, _ := json.Marshal(keys)
		message = string(raw)
	}
	return corev1.PodCondition{
		Type: pub.KruisePodReady, Status: status, Message: message, LastTransitionTime: metav1.NewTime(now),
	}
}

// NotReadyNow is the Ready condition of a Pod one of whose gates is being closed, and false if it is not ready anyway.
// The kubelet will come to the same; writing it now takes the Pod out of its Services at once.
func NotReadyNow(p *corev1.Pod, now time.Time) (corev1.PodCondition, bool) {
	ready := pods.Condition(p, corev1.PodReady)
	if ready == nil || ready.Status != corev1.ConditionTrue || !pods.IsConditionTrue(p, corev1.ContainersReady) {
		return corev1.PodCondition{}, false
	}
	c := *ready
	c.Status, c.Reason, c.Message = corev1.ConditionFalse, "ReadinessGatesNotReady", ""
	c.LastTransitionTime = metav1.NewTime(now)
	return c, true
}
