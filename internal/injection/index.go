package injection

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// Index finds the SidecarSets that select a Pod. It looks at few of all that there are: each set is filed under one label that
// its Pods must have and, if it wants only certain namespaces, under their names. What is found there is compared in full.
// Sets that inject nothing, because they are paused or select no Pod, are not in it.
//
// It may be read at many places at a time, but not while it is changed. The sets are shared: nobody may change them.
type Index struct {
	files map[file][]*v1beta1.SidecarSet
	// places are the files of every set, by its name.
	places map[string][]file
}

// file is what the sets in it demand; the zero value: nothing.
type file struct {
	// namespace is the name of the Pods' namespace; empty: any.
	namespace string
	// label is one that the Pods have; empty: none need be there. any: whatever its value.
	label, value string
	any          bool
}

// NewIndex is one without any set.
func NewIndex() *Index {
	return &Index{files: map[file][]*v1beta1.SidecarSet{}, places: map[string][]file{}}
}

// Put takes a set up, in the place of the one that had its name.
func (x *Index) Put(set *v1beta1.SidecarSet) {
	x.Remove(set.Name)
	if set.Spec.InjectionStrategy.Paused {
		return
	}
	files := x.filesFor(set)
	for _, f := range files {
		x.files[f] = append(x.files[f], set)
	}
	if len(files) > 0 {
		x.places[set.Name] = files
	}
}

// Remove forgets a set.
func (x *Index) Remove(name string) {
	for _, f := range x.places[name] {
		rest := slices.DeleteFunc(x.files[f], func(s *v1beta1.SidecarSet) bool { return s.Name == name })
		if x.files[f] = rest; len(rest) == 0 {
			delete(x.files, f)
		}
	}
	delete(x.places, name)
}

// Find returns the sets that select a Pod of those labels in the namespace of that name, and those of which only the labels
// of the namespace can tell; both in the order of their names.
func (x *Index) Find(namespace string, labels map[string]string) (certain, dependent []*v1beta1.SidecarSet) {
	look := func(f file) {
		for _, set := range x.files[f] {
			switch {
			case !Selects(set.Spec.Selector, labels):
			case set.Spec.NamespaceSelector == nil:
				certain = append(certain, set)
			case !isByName(set.Spec.NamespaceSelector):
				dependent = append(dependent, set)
			case Selects(set.Spec.NamespaceSelector, map[string]string{corev1.LabelMetadataName: namespace}):
				certain = append(certain, set)
			}
		}
	}
	for _, at := range [...]string{"", namespace} {
		look(file{namespace: at})
		for label, value := range labels {
			look(file{namespace: at, label: label, value: value})
			look(file{namespace: at, label: label, any: true})
		}
	}
	slices.SortFunc(certain, byName)
	slices.SortFunc(dependent, byName)
	return certain, dependent
}

func byName(a, b *v1beta1.SidecarSet) int { return cmp.Compare(a.Name, b.Name) }

// isByName tells whether the name of a namespace is enough to know whether it is selected.
func isByName(s *metav1.LabelSelector) bool {
	for key := range s.MatchLabels {
		if key != corev1.LabelMetadataName {
			return false
		}
	}
	return !slices.ContainsFunc(s.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool { return e.Key != corev1.LabelMetadataName })
}

// filesFor are the files to put a set into; none, if it can select no Pod. Of the labels that it demands it goes to the one
// that fewest others are filed under: what many have in common tells little.
func (x *Index) filesFor(set *v1beta1.SidecarSet) []file {
	if s := set.Spec.Selector; s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil
	}
	labels, namespaces := map[string]*demand{}, map[string]*demand{}
	collect(set.Spec.Selector, labels)
	if s := set.Spec.NamespaceSelector; s != nil {
		collect(s, namespaces)
	}
	for _, demands := range []map[string]*demand{labels, namespaces} {
		for _, d := range demands {
			if !d.canBeMet() {
				return nil
			}
		}
	}
	names := []string{""}
	if d := namespaces[corev1.LabelMetadataName]; d != nil && d.isNarrow {
		names = d.allowed
	}
	best := inAll(names, []file{{}})
	fewest := -1
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		var files []file
		switch d := labels[label]; {
		case d.isNarrow:
			for _, value := range d.allowed {
				files = append(files, file{label: label, value: value})
			}
		case d.present:
			files = append(files, file{label: label, any: true})
		default:
			continue
		}
		files = inAll(names, files)
		if n := x.count(files); fewest < 0 || n < fewest {
			best, fewest = files, n
		}
	}
	return best
}

// inAll are the files in all those namespaces.
func inAll(names []string, files []file) []file {
	var out []file
	for _, f := range files {
		for _, name := range names {
			f.namespace = name
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.label, b.label), cmp.Compare(a.value, b.value))
	})
	return slices.Compact(out)
}

func (x *Index) count(files []file) int {
	n := 0
	for _, f := range files {
		n += len(x.files[f])
	}
	return n
}
