// Command statefulset-controller keeps Advanced StatefulSets.
package main

import (
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/statefulset"
)

const defaultSyncs = 5

func main() {
	app.Main(app.Component{
		Name:            "statefulset-controller",
		Short:           "Creates, deletes and updates the Pods of Advanced StatefulSets (apps.kruise.io)",
		ConcurrentSyncs: defaultSyncs,
		New:             statefulset.New,
	})
}
