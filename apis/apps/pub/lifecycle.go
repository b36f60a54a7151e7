package pub

// Keys of the Pod lifecycle.
const (
	// LifecycleStateKey is the Pod label that holds the lifecycle state.
	LifecycleStateKey = "lifecycle.apps.kruise.io/state"
	// LifecycleTimestampKey is the Pod annotation with the time (RFC 3339) of the last change of the state.
	LifecycleTimestampKey = "lifecycle.apps.kruise.io/timestamp"
)

// LifecycleStateType is a state of the Pod lifecycle. A Pod without the label counts as one in state "".
type LifecycleStateType string

// States of the Pod lifecycle. Only Pods in state "" and Normal can be available.
const (
	LifecycleStatePreparingNormal LifecycleStateType = "PreparingNormal"
	LifecycleStateNormal          LifecycleStateType = "Normal"
	LifecycleStatePreparingUpdate LifecycleStateType = "PreparingUpdate"
	LifecycleStateUpdating        LifecycleStateType = "Updating"
	LifecycleStateUpdated         LifecycleStateType = "Updated"
	LifecycleStatePreparingDelete LifecycleStateType = "PreparingDelete"
)

// Lifecycle holds Pods at the points where a user's controller has something to do first.
type Lifecycle struct {
	// PreDelete holds a Pod that the controller wants to delete.
	PreDelete *LifecycleHook `json:"preDelete,omitempty"`
	// InPlaceUpdate holds a Pod before an in-place update, and after it until the hook is satisfied again.
	InPlaceUpdate *LifecycleHook `json:"inPlaceUpdate,omitempty"`
	// PreNormal holds a new Pod until the hook is satisfied. Until then it is not available.
	PreNormal *LifecycleHook `json:"preNormal,omitempty"`
}

// LifecycleHook says by which labels and finalizers a Pod is held.
type LifecycleHook struct {
	// LabelsHandler holds the Pod while any of the labels has exactly this value.
	LabelsHandler map[string]string `json:"labelsHandler,omitempty"`
	// FinalizersHandler holds the Pod while any of the finalizers is on it.
	FinalizersHandler []string `json:"finalizersHandler,omitempty"`
	// MarkPodNotReady makes a held Pod not ready, so that it leaves the endpoints of its Services. Not used by
	// preNormal. Default false.
	MarkPodNotReady bool `json:"markPodNotReady,omitempty"`
}
