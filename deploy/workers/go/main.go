// A worker in Go: takes the streams of a tapflow output of type "mux" and writes the dnstap frames into a file.
//
// Each stream of a session is an ordinary Frame Streams connection. This program knows the plain content type alone, so
// it acknowledges nothing; tapflow sees that and sends it plain dnstap.
//
//	go run . -listen 127.0.0.1:6001 -out frames.bin
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sync"
	"time"

	framestream "github.com/farsightsec/golang-framestream"
	"github.com/hashicorp/yamux"
)

// Sink is where all streams write: each frame with its length before it, as on the wire.
type sink struct {
	sync.Mutex
	out    *bufio.Writer
	frames int
}

func (s *sink) write(frame []byte) error {
	s.Lock()
	defer s.Unlock()
	s.frames++
	if err := binary.Write(s.out, binary.BigEndian, uint32(len(frame))); err != nil {
		return err
	}
	_, err := s.out.Write(frame)
	return err
}

func (s *sink) flush() int {
	s.Lock()
	defer s.Unlock()
	if err := s.out.Flush(); err != nil {
		log.Fatal(err)
	}
	return s.frames
}

func main() {
	listen := flag.String("listen", "127.0.0.1:6001", "where to listen")
	out := flag.String("out", "frames.bin", "file for the frames")
	flag.Parse()
	file, err := os.Create(*out)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening", listener.Addr())
	s := &sink{out: bufio.NewWriterSize(file, 1<<20)}
	for {
		conn, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go session(conn, s)
	}
}

// A session accepts streams until the other end closes it.
func session(conn net.Conn, s *sink) {
	config := yamux.DefaultConfig()
	config.LogOutput = io.Discard
	session, err := yamux.Server(conn, config)
	if err != nil {
		log.Print(err)
		return
	}
	defer session.Close()
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			return
		}
		go read(stream, s)
	}
}

// A stream is read to its STOP, which the library answers with FINISH.
func read(stream net.Conn, s *sink) {
	defer stream.Close()
	reader, err := framestream.NewReader(stream, &framestream.ReaderOptions{
		ContentTypes:  [][]byte{[]byte("protobuf:dnstap.Dnstap")},
		Bidirectional: true,
		Timeout:       10 * time.Second,
	})
	if err != nil {
		log.Print("handshake: ", err)
		return
	}
	frame := make([]byte, 1<<20)
	for {
		n, err := reader.ReadFrame(frame)
		if err != nil {
			if !errors.Is(err, framestream.EOF) {
				log.Print("stream: ", err)
			}
			break
		}
		if err := s.write(frame[:n]); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("stream ended, frames so far", s.flush())
}
