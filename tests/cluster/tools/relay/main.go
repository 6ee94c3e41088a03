// relay LISTEN NETNS TARGET listens on LISTEN in its own network namespace and
// forwards each connection to TARGET in the network namespace NETNS (a file). With
// it, tools on this machine reach the API server of a test cluster whose network
// has no route to this machine.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 4:
		err = enter(os.Args[1], os.Args[2], os.Args[3])
	case len(os.Args) == 3:
		err = relay(os.Args[1], os.Args[2])
	default:
		err = fmt.Errorf("usage: relay LISTEN NETNS TARGET")
	}
	fmt.Fprintln(os.Stderr, "relay:", err)
	os.Exit(1)
}

// enter listens, then executes this program again inside the other namespace and
// passes it the socket. A socket stays in the namespace in which it was created.
func enter(listen, netns, target string) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	fd, err := syscall.Dup(int(file.Fd())) // a duplicate is not closed by exec
	if err != nil {
		return err
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(nsenter, []string{"nsenter", "--net=" + netns, self, strconv.Itoa(fd), target}, os.Environ())
}

func relay(fd, target string) error {
	number, err := strconv.Atoi(fd)
	if err != nil {
		return err
	}
	listener, err := net.FileListener(os.NewFile(uintptr(number), "listener"))
	if err != nil {
		return err
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			return err
		}
		go serve(client.(*net.TCPConn), target)
	}
}

func serve(client *net.TCPConn, target string) {
	defer client.Close()
	conn, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	done := make(chan struct{}, 2)
	forward := func(to, from *net.TCPConn) {
		io.Copy(to, from) //nolint:errcheck // a broken connection ends like a closed one
		to.CloseWrite()   //nolint:errcheck
		done <- struct{}{}
	}
	go forward(server, client)
	go forward(client, server)
	<-done
	<-done
}
