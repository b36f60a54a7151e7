package kube

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// StatusPatch is the merge patch that takes the status of an owner from one value to another, and that applies to no
// namesake that was created since; nil if nothing differs. The first status is written with its zeros: that there are
// none is worth knowing.
func StatusPatch(owner metav1.Object, first bool, old, status any) ([]byte, error) {
	body, err := statusPatch(owner, first, old, status)
	if err != nil {
		return nil, fmt.Errorf("encoding the status of %s: %w", cache.MetaObjectToName(owner), err)
	}
	return body, nil
}

func statusPatch(owner metav1.Object, first bool, old, status any) ([]byte, error) {
	before := []byte(`{"status":{}}`)
	var err error
	if !first {
		if before, err = json.Marshal(map[string]any{"status": old}); err != nil {
			return nil, err
		}
	}
	after, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return nil, err
	}
	diff, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil || string(diff) == "{}" {
		return nil, err
	}
	uid, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": owner.GetUID()}})
	if err != nil {
		return nil, err
	}
	return jsonpatch.MergeMergePatches(diff, uid)
}
