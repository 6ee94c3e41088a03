// Runs the controller of Kruise's container launch priority for the Pods of one namespace, without Kruise's webhook
// and its other controllers. `prepare` builds this file in the source tree of Kruise.
package main

import (
	"os"

	launch "github.com/openkruise/kruise/pkg/controller/containerlaunchpriority"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{os.Getenv("POD_NAMESPACE"): {}}},
		Metrics: server.Options{BindAddress: "0"},
	})
	must(err)
	must(launch.Add(manager))
	must(manager.Start(ctrl.SetupSignalHandler()))
}
