package admission

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestARefusalIsOfBoundedLength(t *testing.T) {
	long := strings.Repeat("\u00e4", 64<<10)
	var errs field.ErrorList
	for range 1000 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "labels").Key(long), long, "is too long"))
	}
	status := refusal(Kind{Kind: "CloneSet"}, &reviewed{Asked: &Asked{Name: "web"}}, errs[:2])
	require.Less(t, len(status.Message), 5*maxCause)
	require.Len(t, refusal(Kind{}, &reviewed{Asked: &Asked{}}, errs).Details.Causes, maxCauses)
	require.Len(t, status.Details.Causes, 2)
	for _, text := range []string{status.Details.Causes[0].Field, status.Details.Causes[0].Message, status.Message} {
		require.Equal(t, strings.ToValidUTF8(text, "?"), text)
	}
	require.Equal(t, "a\u00e4", cut("a\u00e4\u00e4", 4))
	require.Equal(t, "a\u00e4\u00e4", cut("a\u00e4\u00e4", 5))
}

func TestAReviewWithoutAnObjectSaysSo(t *testing.T) {
	for _, object := range []string{``, `,"object":null`} {
		body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE"` + object + `}}`
		_, r, err := decodeReview([]byte(body))
		require.NoError(t, err)
		_, err = decode(r, "CloneSet")
		require.EqualError(t, err, "request.object is missing")
	}
}
