package sim

import (
	"fmt"

	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/binaries"
)

const (
	// nodeLabel marks the nodes that are simulated.
	nodeLabel = "sim.flotilla.io/node"
	// volumeDriver provisions and expands the volumes of the storage class.
	volumeDriver = "volumes.sim.flotilla.io"
	podRange     = "10.128.0.0/12"
	// zones is over how many zones the nodes are spread.
	zones = 3
)

func nodeIP(i int) string { return fmt.Sprintf("172.16.%d.%d", i/250, i%250+1) }

// Node is the i-th simulated node, ready from the start.
func Node(i int) map[string]any {
	name := fmt.Sprintf("node-%d", i)
	capacity := object{"cpu": "64", "memory": "256Gi", "pods": "500", "ephemeral-storage": "1Ti"}
	return object{
		"apiVersion": "v1", "kind": "Node",
		"metadata": object{"name": name, "labels": object{
			nodeLabel:                       "true",
			"type":                          "kwok",
			"kubernetes.io/hostname":        name,
			"kubernetes.io/os":              "linux",
			"kubernetes.io/arch":            "amd64",
			"topology.kubernetes.io/region": "local",
			"topology.kubernetes.io/zone":   "zone-" + string(rune('a'+i%zones)),
		}},
		"status": object{
			"capacity": capacity, "allocatable": capacity,
			"addresses": []object{{"type": "InternalIP", "address": nodeIP(i)}, {"type": "Hostname", "address": name}},
			"nodeInfo": object{
				"architecture": "amd64", "operatingSystem": "linux", "osImage": "simulated", "kernelVersion": "simulated",
				"containerRuntimeVersion": "containerd://simulated", "kubeletVersion": "v" + binaries.KubernetesVersion, "kubeProxyVersion": "",
				"machineID": name, "systemUUID": name, "bootID": name,
			},
		},
	}
}

// Storage are the objects by which claims get volumes, by the path that they are created at.
func Storage() map[string][]map[string]any {
	return map[string][]map[string]any{
		"/apis/storage.k8s.io/v1/storageclasses": {{
			"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
			"metadata":             object{"name": "standard", "annotations": object{"storageclass.kubernetes.io/is-default-class": "true"}},
			"provisioner":          volumeDriver,
			"reclaimPolicy":        "Delete",
			"volumeBindingMode":    "Immediate",
			"allowVolumeExpansion": true,
		}},
		// Nothing attaches: the nodes are not there.
		"/apis/storage.k8s.io/v1/csidrivers": {{
			"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
			"metadata": object{"name": volumeDriver},
			"spec":     object{"attachRequired": false, "podInfoOnMount": false},
		}},
	}
}
