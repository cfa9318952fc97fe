// Command yamux-go is a peer for the tests of the mux: hashicorp/yamux in either role, told what to do over streams.
//
//	yamux-go client|server tcp|unix ADDRESS
//
// It dials ADDRESS. Each stream that the other end opens begins with a line, the command; the answer comes on the stream.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// content is what the stream of that number carries.
func content(stream, octets int) []byte {
	all := make([]byte, octets)
	for n := range all {
		all[n] = byte(n/7 + stream*31)
	}
	return all
}

// open opens a stream, sends its content and compares what comes back.
func open(session *yamux.Session, number, octets int) error {
	stream, err := session.OpenStream()
	if err != nil {
		return err
	}
	sent := content(number, octets)
	wrote := make(chan error, 1)
	go func() {
		_, err := stream.Write(sent)
		if err == nil {
			err = stream.Close()
		}
		wrote <- err
	}()
	back, err := io.ReadAll(stream)
	if err != nil {
		return err
	}
	if err := <-wrote; err != nil {
		return err
	}
	if !bytes.Equal(sent, back) {
		return fmt.Errorf("%d octets came back", len(back))
	}
	return nil
}

// last is what the latest command with a later outcome came to.
var last = make(chan string, 16)

func serve(session *yamux.Session, stream *yamux.Stream) {
	reader := bufio.NewReader(stream)
	line, err := reader.ReadString('\n')
	if err != nil {
		last <- err.Error()
		return
	}
	var streams, octets int
	switch command, rest, _ := strings.Cut(strings.TrimSpace(line), " "); command {
	case "echo":
		io.Copy(stream, reader)
		stream.Close()
	case "half":
		// This end is over first, and still reads.
		stream.Write([]byte("done"))
		stream.Close()
		n, err := io.Copy(io.Discard, reader)
		last <- fmt.Sprint(n, " ", err)
	case "leave":
		// After the close timeout the library resets the stream.
		stream.Close()
	case "read":
		_, err := io.Copy(io.Discard, reader)
		last <- fmt.Sprint(err)
	case "last":
		io.WriteString(stream, <-last)
		stream.Close()
	case "ping":
		_, err := session.Ping()
		fmt.Fprint(stream, err)
		stream.Close()
	case "open":
		fmt.Sscan(rest, &streams, &octets)
		var group sync.WaitGroup
		failed := make([]error, streams)
		for n := 0; n < streams; n++ {
			group.Add(1)
			go func(n int) {
				defer group.Done()
				failed[n] = open(session, n, octets)
			}(n)
		}
		group.Wait()
		for n, err := range failed {
			if err != nil {
				fmt.Fprintf(stream, "stream %d: %v\n", n, err)
			}
		}
		stream.Close()
	case "go-away":
		fmt.Fprint(stream, session.GoAway())
		stream.Close()
	case "try-open":
		_, err := session.OpenStream()
		fmt.Fprint(stream, err)
		stream.Close()
	}
}

func main() {
	role, network, address := os.Args[1], os.Args[2], os.Args[3]
	conn, err := net.Dial(network, address)
	if err != nil {
		panic(err)
	}
	config := yamux.DefaultConfig()
	config.StreamCloseTimeout = 300 * time.Millisecond
	config.MaxStreamWindowSize = 512 * 1024
	config.LogOutput = io.Discard
	make := yamux.Server
	if role == "client" {
		make = yamux.Client
	}
	session, err := make(conn, config)
	if err != nil {
		panic(err)
	}
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			break
		}
		go serve(session, stream)
	}
	<-session.CloseChan()
	fmt.Println("over")
}
