package kube

import (
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/apis/client/clientset/versioned"
	"github.com/flotilla-k8s/flotilla/apis/client/clientset/versioned/scheme"
	typed "github.com/flotilla-k8s/flotilla/apis/client/clientset/versioned/typed/apps/v1beta1"
)

// unreadable is an annotation that only this process makes: no object in the cluster can have one of that name.
const unreadable = "(cannot be read)"

// Unreadable is why an object has nothing but its metadata here; "" if it is whole.
func Unreadable(object metav1.Object) string { return object.GetAnnotations()[unreadable] }

// NewFlotilla builds a client of our kinds. An object that their types cannot hold, as one is that was stored past the schema of
// its version, comes as its metadata alone: see Unreadable. To a client of the usual making it would be an error of the whole
// list, and of every watch that comes by it; so one object would stop the work on all others.
func NewFlotilla(config *rest.Config) (versioned.Interface, error) {
	usual, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building the client: %w", err)
	}
	own := rest.CopyConfig(config)
	own.GroupVersion, own.APIPath = &v1beta1.SchemeGroupVersion, "/apis"
	own.NegotiatedSerializer = serializer{scheme.Codecs.WithoutConversion()}
	if own.UserAgent == "" {
		own.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("building the client: %w", err)
	}
	return clients{usual, typed.New(client)}, nil
}

type clients struct {
	versioned.Interface

	beta typed.AppsV1beta1Interface
}

func (c clients) AppsV1beta1() typed.AppsV1beta1Interface { return c.beta }

type serializer struct{ runtime.NegotiatedSerializer }

func (s serializer) DecoderToVersion(d runtime.Decoder, v runtime.GroupVersioner) runtime.Decoder {
	return decoder{s.NegotiatedSerializer.DecoderToVersion(d, v)}
}

// decoder decodes once more, without what cannot be read, what it cannot decode.
type decoder struct{ runtime.Decoder }

func (d decoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	object, kind, err := d.Decoder.Decode(data, defaults, into)
	if err == nil {
		return object, kind, nil
	}
	rest, reduceErr := d.reduce(data, err)
	if reduceErr != nil {
		return object, kind, err //nolint:wrapcheck // As if this decoder were not there.
	}
	if into != nil {
		// The first attempt may have filled a part.
		reflect.ValueOf(into).Elem().SetZero()
	}
	return d.Decoder.Decode(rest, defaults, into) //nolint:wrapcheck // As above.
}

// reduce is the text of an object or of a list without what cannot be read, which is known of the object and is found out of
// the items of a list.
func (d decoder) reduce(data []byte, why error) ([]byte, error) {
	var list struct {
		metav1.TypeMeta `json:",inline"`

		Metadata json.RawMessage   `json:"metadata,omitempty"`
		Items    []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("reading the text: %w", err)
	}
	if list.Items == nil {
		return header(data, why)
	}
	for i, item := range list.Items {
		_, _, err := d.Decoder.Decode(item, nil, nil)
		if err == nil {
			continue
		}
		if list.Items[i], err = header(item, err); err != nil {
			return nil, err
		}
	}
	return encoded(list)
}

// header is an object without all but its metadata, which say why.
func header(data []byte, why error) ([]byte, error) {
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("reading the metadata: %w", err)
	}
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, unreadable, FirstLine(why))
	return encoded(object)
}

func encoded(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing the text: %w", err)
	}
	return data, nil
}
