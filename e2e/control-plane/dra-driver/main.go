// A driver of dynamic resource allocation whose devices are nothing but names. A container gets the name of its device in the
// variable DEVICES.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// The folder of the kubelet, as it sees it.
const kubelet = "/var/lib/kubelet"

type driver struct {
	name string
	// Where the container runtime reads descriptions of devices.
	cdi string
	// A device that it fails to prepare.
	refused string
}

func (d *driver) description(claim types.UID) string {
	return filepath.Join(d.cdi, fmt.Sprintf("%s-%s.json", d.name, claim))
}

// PrepareResourceClaims describes the allocated devices to the container runtime.
func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		results[claim.UID] = d.prepare(claim)
	}
	return results, nil
}

func (d *driver) prepare(claim *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	kind := d.name + "/device"
	var result kubeletplugin.PrepareResult
	var described []any
	for _, allocated := range claim.Status.Allocation.Devices.Results {
		if allocated.Driver != d.name {
			continue
		}
		if allocated.Device == d.refused {
			result.Err = fmt.Errorf("%s is broken", allocated.Device)
			return result
		}
		name := fmt.Sprintf("%s-%s", claim.UID, allocated.Device)
		edits := map[string]any{"env": []string{"DEVICES=" + allocated.Device}}
		described = append(described, map[string]any{"name": name, "containerEdits": edits})
		result.Devices = append(result.Devices, kubeletplugin.Device{
			Requests:     []string{allocated.Request},
			PoolName:     allocated.Pool,
			DeviceName:   allocated.Device,
			CDIDeviceIDs: []string{kind + "=" + name},
		})
	}
	text, err := json.Marshal(map[string]any{"cdiVersion": "0.6.0", "kind": kind, "devices": described})
	if err == nil {
		err = os.WriteFile(d.description(claim.UID), text, 0o644)
	}
	result.Err = err
	return result
}

// UnprepareResourceClaims removes the descriptions.
func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		err := os.Remove(d.description(claim.UID))
		if os.IsNotExist(err) {
			err = nil
		}
		results[claim.UID] = err
	}
	return results, nil
}

// HandleError logs an error of the background.
func (d *driver) HandleError(_ context.Context, err error, message string) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", message, err)
}

func run() error {
	name := flag.String("driver", "", "the name of the driver")
	node := flag.String("node", "", "the node")
	root := flag.String("kubelet", "", "the folder of the kubelet, as seen from here")
	cdi := flag.String("cdi", "", "the folder for descriptions of devices")
	refused := flag.String("refuse", "", "a device that it fails to prepare")
	kubeconfig := flag.String("kubeconfig", "", "the cluster")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*cdi, 0o755); err != nil {
		return err
	}
	listen := func(ctx context.Context, path string) (net.Listener, error) {
		here := filepath.Join(*root, strings.TrimPrefix(path, kubelet))
		if err := os.MkdirAll(filepath.Dir(here), 0o755); err != nil {
			return nil, err
		}
		// A driver that was killed leaves its socket.
		_ = os.Remove(here)
		return (&net.ListenConfig{}).Listen(ctx, "unix", here)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	helper, err := kubeletplugin.Start(ctx, &driver{name: *name, cdi: *cdi, refused: *refused},
		kubeletplugin.DriverName(*name),
		kubeletplugin.NodeName(*node),
		kubeletplugin.KubeClient(client),
		kubeletplugin.Serialize(false),
		kubeletplugin.RegistrarDirectoryPath(kubelet+"/plugins_registry"),
		kubeletplugin.RegistrarListener(listen),
		kubeletplugin.PluginDataDirectoryPath(kubelet+"/plugins/"+*name),
		kubeletplugin.PluginListener(listen))
	if err != nil {
		return err
	}
	fmt.Println("registered", *name)
	<-ctx.Done()
	helper.Stop()
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}
