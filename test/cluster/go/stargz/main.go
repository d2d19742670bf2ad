// Command containerd-stargz-grpc serves stargz-snapshotter's own snapshotter to a containerd of the tests. The project's daemon is a
// module that cannot be had from a module proxy; this one has its file system and snapshotter, and nothing of its key chains and
// metrics. Usage: containerd-stargz-grpc SOCKET ROOT CONFIG.json
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/contrib/snapshotservice"
	"github.com/containerd/stargz-snapshotter/service"
	"google.golang.org/grpc"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "containerd-stargz-grpc:", err)
		os.Exit(1)
	}
}

// Ends only by a signal: like a crash of the machine, that leaves its mounts to whoever started it.
func serve(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("want SOCKET ROOT CONFIG.json, got %d arguments", len(args))
	}
	text, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	config := new(service.Config)
	if err := json.Unmarshal(text, config); err != nil {
		return fmt.Errorf("%s: %w", args[2], err)
	}
	snapshotter, err := service.NewStargzSnapshotterService(context.Background(), args[1], config)
	if err != nil {
		return err
	}
	listener, err := net.Listen("unix", args[0])
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	snapshotsapi.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(snapshotter))
	return server.Serve(listener)
}
