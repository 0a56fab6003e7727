// A BigFleet provider in Go, made from the contract alone: pb/ is generated from proto/, the rest is in two files.
//
// Its machines do not exist. It keeps nothing on disk, so it is no base for a real provider without a store.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"goprovider/pb"
)

const maxMessageBytes = 256 << 20

func main() {
	address := flag.String("addr", "127.0.0.1:9000", "gRPC address")
	slots := flag.Int("slots", 96, "machines that could be had")
	takes := flag.Duration("takes", 5*time.Millisecond, "how long each operation takes")
	flag.Parse()
	if err := serve(*address, newProvider(*slots, *takes)); err != nil {
		fmt.Fprintln(os.Stderr, "go-provider:", err)
		os.Exit(1)
	}
}

func serve(address string, p *provider) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxSendMsgSize(maxMessageBytes),
		// Shards ping idle connections; the library's default would hang up on them.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 20 * time.Second, PermitWithoutStream: true}),
	)
	pb.RegisterCapacityProviderServer(server, p)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stop
		server.GracefulStop()
	}()
	fmt.Fprintln(os.Stderr, "go-provider: serving on", listener.Addr())
	return server.Serve(listener)
}
