package migration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/flowcontrol"
)

// TestScenario043_AWriteThatGotNoAnswerIsRepeated: a loss of the connection says nothing about the object.
func TestScenario043_AWriteThatGotNoAnswerIsRepeated(t *testing.T) {
	resource := schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1beta1", Resource: "clonesets"}
	lost := func(err error) error { return &url.Error{Op: "Patch", URL: "https://server.example", Err: err} }
	for name, c := range map[string]struct {
		err   error
		calls int
		fails bool
	}{
		"HTTP/2 was lost":            {lost(errors.New("http2: client connection lost")), 2, false},
		"HTTP/2 was lost, unwrapped": {errors.New("http2: client connection lost"), 2, false},
		"refused":                    {lost(syscall.ECONNREFUSED), 2, false},
		"reset":                      {lost(syscall.ECONNRESET), 2, false},
		"cut off":                    {lost(io.ErrUnexpectedEOF), 2, false},
		"too many requests":          {apierrors.NewTooManyRequests("later", 0), 2, false},
		"changed by somebody":        {apierrors.NewConflict(resource.GroupResource(), "web", errors.New("changed")), 1, false},
		"gone":                       {apierrors.NewNotFound(resource.GroupResource(), "web"), 1, false},
		"invalid":                    {apierrors.NewInvalid(schema.GroupKind{Kind: "CloneSet"}, "web", nil), 1, true},
		"given up":                   {lost(context.Canceled), 1, true},
		"something else":             {fmt.Errorf("no such thing"), 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			client := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
			calls := 0
			client.PrependReactor("patch", "clonesets", func(clienttesting.Action) (bool, runtime.Object, error) {
				if calls++; calls == 1 {
					return true, nil, c.err
				}
				return true, &metav1.PartialObjectMetadata{}, nil
			})
			m := &Migrator{Metadata: client}
			err := m.write(t.Context(), flowcontrol.NewFakeAlwaysRateLimiter(), resource, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}})
			require.Equal(t, c.fails, err != nil, "%v", err)
			require.Equal(t, c.calls, calls)
		})
	}
}
