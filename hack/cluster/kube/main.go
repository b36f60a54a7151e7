// Command kube is the multi-call binary of the local cluster: etcd, every Kubernetes component and kubectl in one
// file. It acts as the component that its name or its first argument names.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var components = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl", simSupport}

func main() {
	name := filepath.Base(os.Args[0])
	if !slices.Contains(components, name) && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	os.Exit(run(name))
}

// run builds the command of the one component that was asked for: two of them in one process both claim its signals.
func run(name string) int {
	var command *cobra.Command
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
		return 0
	case "kubectl":
		// kubectl has error texts and exit codes of its own.
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
		return 0
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllermanager.NewControllerManagerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	case "kube-proxy":
		command = proxy.NewProxyCommand()
	case "kubelet":
		command = kubelet.NewKubeletCommand(context.Background())
	case simSupport:
		command = newSupportCommand()
	default:
		fmt.Fprintf(os.Stderr, "kube: unknown component %q (one of %s)\n", name, strings.Join(components, ", "))
		return 2
	}
	return cli.Run(command)
}
