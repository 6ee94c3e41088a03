// The kubelet's own prober, as the oracle for podgate's. Reads one JSON object per line and answers with one line each:
// success, warning, failure or unknown (the kubelet discards the attempt), then what the kubelet says.
//
// `get` compiles it with the go.mod of the newest Kubernetes in ../k8s.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/probe"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"
	tcpprobe "k8s.io/kubernetes/pkg/probe/tcp"
)

type request struct {
	PodIP   string
	Timeout int
	HTTPGet *v1.HTTPGetAction
	// TCPSocket has a port number.
	TCPSocket *v1.TCPSocketAction
	// Hook makes HTTPGet a lifecycle hook.
	Hook bool
}

// pod answers the handler's question for the Pod's IP.
type pod struct{ ip string }

func (pod) GetPod(context.Context, types.UID) (*kubecontainer.Pod, error) {
	return &kubecontainer.Pod{}, nil
}

func (own pod) GetPodStatus(context.Context, *kubecontainer.Pod) (*kubecontainer.PodStatus, error) {
	return &kubecontainer.PodStatus{IPs: []string{own.ip}}, nil
}

// attempt is `runProbe` of pkg/kubelet/prober/prober.go.
func attempt(ask request) (probe.Result, string, error) {
	timeout := time.Duration(ask.Timeout) * time.Second
	if ask.TCPSocket != nil {
		host := ask.TCPSocket.Host
		if host == "" {
			host = ask.PodIP
		}
		return tcpprobe.New().Probe(host, ask.TCPSocket.Port.IntValue(), timeout)
	}
	req, err := httpprobe.NewRequestForHTTPGetAction(ask.HTTPGet, &v1.Container{}, ask.PodIP, "probe")
	if err != nil {
		return probe.Unknown, "", err
	}
	return httpprobe.New(false).Probe(req, timeout)
}

// hook runs a lifecycle hook with the client of pkg/kubelet/kubelet.go.
func hook(ask request) (probe.Result, string, error) {
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: httpprobe.RedirectChecker(false),
	}
	handler := &v1.LifecycleHandler{HTTPGet: ask.HTTPGet}
	runner := lifecycle.NewHandlerRunner(client, nil, pod{ask.PodIP}, nil)
	message, err := runner.Run(context.Background(), kubecontainer.ContainerID{}, &v1.Pod{}, &v1.Container{}, handler)
	if err != nil {
		return probe.Failure, message, nil
	}
	return probe.Success, "", nil
}

func main() {
	var asks []request
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var ask request
		if err := json.Unmarshal(lines.Bytes(), &ask); err != nil {
			fmt.Fprintln(os.Stderr, "prober:", err)
			os.Exit(64)
		}
		asks = append(asks, ask)
	}
	answers := make([]string, len(asks))
	var group sync.WaitGroup
	for at, ask := range asks {
		group.Go(func() {
			run := attempt
			if ask.Hook {
				run = hook
			}
			result, detail, err := run(ask)
			if err != nil {
				result, detail = probe.Unknown, err.Error()
			}
			detail, _, _ = strings.Cut(detail, "\n")
			answers[at] = fmt.Sprintf("%s %s", result, detail)
		})
	}
	group.Wait()
	fmt.Println(strings.Join(answers, "\n"))
}
