package pub

// Labels and annotations of the workloads of a UnitedDeployment and of their Pods.
const (
	// SubsetNameKey is the label that names the subset.
	SubsetNameKey = "apps.kruise.io/subset-name"
	// SubsetRevisionKey is the label that names the revision of the UnitedDeployment's template.
	SubsetRevisionKey = "apps.kruise.io/controller-revision-hash"
)
