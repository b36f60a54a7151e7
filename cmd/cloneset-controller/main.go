// Command cloneset-controller keeps CloneSets.
package main

import (
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/cloneset"
)

const defaultSyncs = 5

func main() {
	options := &cloneset.Options{}
	app.Main(app.Component{
		Name:            "cloneset-controller",
		Short:           "Creates, deletes and updates the Pods of CloneSets (apps.kruise.io)",
		ConcurrentSyncs: defaultSyncs,
		AddFlags:        options.AddFlags,
		New:             options.New,
	})
}
