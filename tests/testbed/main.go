// Command testbed holds a whole Kubernetes control plane in one multi-call
// binary, for the tests of BigFleet: etcd, kube-apiserver, kube-scheduler,
// kube-controller-manager, the kwok fake kubelet and kubectl.
//
//	testbed <component> [flags...]   run that component with its usual flags
//	testbed kwok-stages              print kwok's stock node and pod stages (YAML)
//	testbed versions                 print what is inside, one "module version" a line
//
// A symbolic link named after a component ("kubectl") works as well. One
// binary is one link step, one file to cache and one set of text pages in
// memory; each component is still a process of its own, so that a test can
// kill or pause any of them alone.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // CronJob time zones; the real main packages import it too

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodelease "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"
)

// Each entry runs to its end and returns the exit code. os.Args[0] is already
// the component's name, so the packages see the command line they expect.
var components = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          kube(apiserver.NewAPIServerCommand),
	"kube-controller-manager": kube(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          kube(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubectl":                 runKubectl,
	"kwok":                    runKwok,
	"kwok-stages":             printStages,
	"versions":                printVersions,
}

// The exit code of a component whose runner is gone.
const runnerGone = 3

func main() {
	name := filepath.Base(os.Args[0])
	if components[name] == nil && len(os.Args) > 1 { // not a symbolic link
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	run := components[name]
	if run == nil {
		names := make([]string, 0, len(components))
		for n := range components {
			names = append(names, n)
		}
		slices.Sort(names)
		fmt.Fprintln(os.Stderr, "usage: testbed {"+strings.Join(names, "|")+"} [flags...]")
		os.Exit(2)
	}
	if runner := os.Getenv("TESTBED_LEASH"); runner != "" && name != "kubectl" {
		pid, err := strconv.Atoi(runner)
		if err != nil {
			fmt.Fprintf(os.Stderr, "testbed: TESTBED_LEASH is %q, allowed is the process id of the runner\n", runner)
			os.Exit(2)
		}
		go endWithInput()
		go endWithRunner(pid)
	}
	os.Exit(run())
}

// endWithInput ends this process as soon as its standard input closes. A
// runner that starts components with a pipe for standard input, and keeps the
// other end to itself, leaves none behind, however it dies.
func endWithInput() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(runnerGone)
}

// endWithRunner covers the one hole of endWithInput: a process that the runner
// forked may still hold the pipe open. A parent-death signal would not do, as
// it is sent when the thread that started the component ends, not the process.
func endWithRunner(pid int) {
	for os.Getppid() == pid {
		time.Sleep(time.Second)
	}
	os.Exit(runnerGone)
}

func kube(newCommand func() *cobra.Command) func() int {
	return func() int { return cli.Run(newCommand()) }
}

func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints the error and exits
	}
	return 0
}

// runKwok mirrors kwok's own start: configuration flags are read first because
// the stages of a --config file decide what the command will simulate.
func runKwok() int {
	early := pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	early.ParseErrorsAllowlist.UnknownFlags = true
	early.Usage = func() {}
	ctx, logger := kwoklog.InitFlags(kwoksignals.SetupSignalContext(), early)
	ctx, err := kwokconfig.InitFlags(ctx, early)
	if err == nil {
		command := kwok.NewCommand(ctx)
		command.PersistentFlags().AddFlagSet(early)
		command.Version = "" // its --version would clash with the one Kubernetes registers globally
		err = command.ExecuteContext(ctx)
	}
	if err != nil {
		logger.Error("kwok", "err", err)
		return 1
	}
	return 0
}

// printStages writes the stages for `testbed kwok --config=FILE`: nodes turn
// Ready at once and stay so, pods turn Running (Job pods Succeeded), and a
// deleted pod goes away as if a kubelet had stopped it.
func printStages() int {
	for _, stage := range []string{
		nodefast.DefaultNodeInit, nodelease.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete,
	} {
		fmt.Printf("---\n%s\n", strings.TrimSpace(stage))
	}
	return 0
}

func printVersions() int {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return 1
	}
	fmt.Println("go", info.GoVersion)
	for _, dep := range info.Deps {
		switch dep.Path {
		case "go.etcd.io/etcd/server/v3", "k8s.io/kubernetes", "k8s.io/kubectl", "sigs.k8s.io/kwok":
			fmt.Println(dep.Path, dep.Version)
		}
	}
	return 0
}
