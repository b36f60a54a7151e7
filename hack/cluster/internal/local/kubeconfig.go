package local

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/pki"
	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/state"
)

// kubeconfig is the part of the file format that is used here. Byte slices are base64 in it.
type kubeconfig struct {
	APIVersion     string              `json:"apiVersion"`
	Kind           string              `json:"kind"`
	Clusters       []kubeconfigCluster `json:"clusters"`
	Users          []kubeconfigUser    `json:"users"`
	Contexts       []kubeconfigContext `json:"contexts"`
	CurrentContext string              `json:"current-context"`
}

type kubeconfigCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server                   string `json:"server"`
		CertificateAuthorityData []byte `json:"certificate-authority-data"`
	} `json:"cluster"`
}

type kubeconfigUser struct {
	Name string `json:"name"`
	User struct {
		ClientCertificateData []byte `json:"client-certificate-data"`
		ClientKeyData         []byte `json:"client-key-data"`
	} `json:"user"`
}

type kubeconfigContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

// writeKubeconfig lets a user of the authority reach the server. The file needs no other file.
func writeKubeconfig(path, server, user string, authority []byte, pair pki.Pair) error {
	const name = "flotilla-local"
	k := kubeconfig{APIVersion: "v1", Kind: "Config", CurrentContext: name}
	cluster := kubeconfigCluster{Name: name}
	cluster.Cluster.Server, cluster.Cluster.CertificateAuthorityData = server, authority
	u := kubeconfigUser{Name: user}
	u.User.ClientCertificateData, u.User.ClientKeyData = pair.Cert, pair.Key
	c := kubeconfigContext{Name: name}
	c.Context.Cluster, c.Context.User = name, user
	k.Clusters, k.Users, k.Contexts = []kubeconfigCluster{cluster}, []kubeconfigUser{u}, []kubeconfigContext{c}
	raw, err := yaml.Marshal(k)
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	return state.WriteFile(path, raw, 0o600)
}
