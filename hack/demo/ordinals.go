package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// reserving is the set of the example reserve-ordinals.
const reserving = "db-reserve-ordinals"

// reserve gives up one ordinal after the other; the Pods of all the others stay what they are.
func (d *demo) reserve(ctx context.Context) (string, error) {
	if err := d.apply("statefulset", "reserve-ordinals"); err != nil {
		return "", err
	}
	var seen []string
	steps := []struct{ patch, ordinals string }{
		{"", "0 2 3 4"},
		{`{"spec":{"reserveOrdinals":[1,3]}}`, "0 2 4 5"},
		{`{"spec":{"replicas":3}}`, "0 2 4"},
	}
	first := map[string]types.UID{}
	for _, s := range steps {
		if s.patch != "" {
			_, err := d.cluster.Flotilla.AppsV1beta1().StatefulSets(namespace).Patch(ctx, reserving, types.MergePatchType, []byte(s.patch), metav1.PatchOptions{})
			if err != nil {
				return "", fmt.Errorf("changing %s by %s: %w", reserving, s.patch, err)
			}
			fmt.Printf("  %s\n", s.patch)
		}
		if err := d.untilOrdinals(ctx, s.ordinals, first); err != nil {
			return "", err
		}
		fmt.Printf("  Pods %s\n", s.ordinals)
		seen = append(seen, "["+s.ordinals+"]")
	}
	return "Pods " + strings.Join(seen, ", then ") + "; none of the others was replaced", nil
}

// untilOrdinals waits until exactly the Pods of these ordinals exist and are ready. first remembers the Pods of ordinals, none
// of which may become another one.
func (d *demo) untilOrdinals(ctx context.Context, ordinals string, first map[string]types.UID) error {
	return localcluster.Await(ctx, within, func(ctx context.Context) error {
		pods, err := d.pods(ctx, reserving)
		if err != nil {
			return err
		}
		there := map[string]bool{}
		for uid, p := range pods {
			ordinal := strings.TrimPrefix(p.Name, reserving+"-")
			there[ordinal] = localcluster.IsReady(&p)
			if known, ok := first[ordinal]; ok && known != uid {
				return fmt.Errorf("replaced: Pod %s", p.Name)
			}
			first[ordinal] = uid
		}
		wanted := strings.Fields(ordinals)
		for _, o := range wanted {
			if !there[o] {
				return fmt.Errorf("not ready: Pod %s", o)
			}
		}
		if len(there) != len(wanted) {
			return errors.New("other Pods are there")
		}
		return nil
	})
}
