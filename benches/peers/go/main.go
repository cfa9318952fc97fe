// Peers written in Go, put to the work that tapflow does: each from its own module at the version in go.mod.
//
//	peers versions                     the modules' versions
//	peers serve NAME SOCKET            takes one connection and prints what came, then waits for the end of its input
//	peers frames FILE ROUNDS           farsight's reader over FILE from memory, so many times
//	peers views FILE ROUNDS            golang-dnstap's decoder and miekg/dns over the payloads of FILE
//
// NAME is farsight (frames only), golang-dnstap-frames (its input and channel, frames only) or golang-dnstap (decoded and
// counted). Results are one line of words: frames, bytes or nanoseconds, allocations.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	dnstap "github.com/dnstap/golang-dnstap"
	framestream "github.com/farsightsec/golang-framestream"
	"github.com/miekg/dns"
	"google.golang.org/protobuf/proto"
)

// Longest frame that readers are told to take.
const frameMax = 1 << 20

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "versions":
		return versions()
	case len(args) == 3 && args[0] == "serve":
		return serve(args[1], args[2])
	case len(args) == 3 && (args[0] == "frames" || args[0] == "views"):
		data, err := os.ReadFile(args[1])
		if err != nil {
			return err
		}
		rounds, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		if args[0] == "frames" {
			return frames(data, rounds)
		}
		return views(data, rounds)
	}
	return errors.New("usage: peers versions | serve NAME SOCKET | frames FILE ROUNDS | views FILE ROUNDS")
}

func versions() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("no build information")
	}
	fmt.Println(info.GoVersion, "go")
	for _, module := range info.Deps {
		fmt.Println(module.Version, module.Path)
	}
	return nil
}

// tally is what the counting job keeps: plain fields, as tapflow's metrics stage has.
type tally struct {
	frames, bytes, odd           uint64
	messages, families, protocol [16]uint64
	qtypes                       [65536]uint64
	rcodes                       [4096]uint64
}

// count decodes a payload and counts it by message type, transport, query type and response code.
func (t *tally) count(payload []byte, frame *dnstap.Dnstap, msg *dns.Msg) {
	t.frames++
	t.bytes += uint64(len(payload))
	proto.Reset(frame)
	if err := proto.Unmarshal(payload, frame); err != nil {
		t.odd++
		return
	}
	m := frame.GetMessage()
	t.messages[uint32(m.GetType())&15]++
	t.families[uint32(m.GetSocketFamily())&15]++
	t.protocol[uint32(m.GetSocketProtocol())&15]++
	wire := m.GetResponseMessage()
	response := wire != nil
	if !response {
		wire = m.GetQueryMessage()
	}
	if wire == nil {
		return
	}
	if err := msg.Unpack(wire); err != nil {
		t.odd++
		return
	}
	if len(msg.Question) > 0 {
		t.qtypes[msg.Question[0].Qtype]++
	}
	if response {
		t.rcodes[msg.Rcode&4095]++
	}
}

func serve(name, path string) error {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	var t tally
	switch name {
	case "farsight":
		options := framestream.ReaderOptions{ContentTypes: [][]byte{dnstap.FSContentType}, Bidirectional: true}
		reader, err := framestream.NewReader(conn, &options)
		if err != nil {
			return err
		}
		if err := drain(reader, &t); err != nil {
			return err
		}
	case "golang-dnstap", "golang-dnstap-frames":
		input, err := dnstap.NewFrameStreamInput(conn, true)
		if err != nil {
			return err
		}
		// The depth that the dnstap command gives its channel.
		channel := make(chan []byte, 32)
		go func() {
			input.ReadInto(channel)
			close(channel)
		}()
		var frame dnstap.Dnstap
		var msg dns.Msg
		for payload := range channel {
			if name == "golang-dnstap" {
				t.count(payload, &frame, &msg)
			} else {
				t.frames++
				t.bytes += uint64(len(payload))
			}
		}
	default:
		return fmt.Errorf("no peer %q", name)
	}
	fmt.Println(t.frames, t.bytes, t.odd)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func drain(reader *framestream.Reader, t *tally) error {
	buf := make([]byte, frameMax)
	for {
		n, err := reader.ReadFrame(buf)
		if errors.Is(err, framestream.EOF) || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		t.frames++
		t.bytes += uint64(n)
	}
}

// measure runs work and prints what each of the frames it returns the number of cost.
func measure(work func() (uint64, error)) error {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	n, err := work()
	took := time.Since(start)
	if err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	each := float64(n)
	fmt.Println(n, float64(took.Nanoseconds())/each, float64(after.Mallocs-before.Mallocs)/each)
	return nil
}

// loop gives the bytes of a file as one stream in which the data frames come so many times.
type loop struct {
	head, body, tail []byte
	rounds           int
	rest             []byte
}

func (l *loop) Read(into []byte) (int, error) {
	for len(l.rest) == 0 {
		switch {
		case l.head != nil:
			l.rest, l.head = l.head, nil
		case l.rounds > 0:
			l.rest = l.body
			l.rounds--
		case l.tail != nil:
			l.rest, l.tail = l.tail, nil
		default:
			return 0, io.EOF
		}
	}
	n := copy(into, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// frames takes a file of START with one content type, data frames and STOP.
func frames(data []byte, rounds int) error {
	start, stop := 8+4+4+4+len(dnstap.FSContentType), 12
	if len(data) < start+stop {
		return io.ErrUnexpectedEOF
	}
	end := len(data) - stop
	source := &loop{head: data[:start], body: data[start:end], tail: data[end:], rounds: rounds}
	options := framestream.ReaderOptions{ContentTypes: [][]byte{dnstap.FSContentType}}
	reader, err := framestream.NewReader(source, &options)
	if err != nil {
		return err
	}
	return measure(func() (uint64, error) {
		var t tally
		err := drain(reader, &t)
		return t.frames, err
	})
}

func views(data []byte, rounds int) error {
	payloads, err := split(data)
	if err != nil {
		return err
	}
	return measure(func() (uint64, error) {
		var t tally
		var frame dnstap.Dnstap
		var msg dns.Msg
		for range rounds {
			for _, payload := range payloads {
				t.count(payload, &frame, &msg)
			}
		}
		return t.frames, nil
	})
}

// split finds the payloads in memory, so that only their decoding is measured.
func split(data []byte) ([][]byte, error) {
	var payloads [][]byte
	for len(data) >= 4 {
		n := int(binary.BigEndian.Uint32(data))
		data = data[4:]
		if n == 0 {
			if len(data) < 4 {
				return nil, io.ErrUnexpectedEOF
			}
			control := 4 + int(binary.BigEndian.Uint32(data))
			data = data[min(control, len(data)):]
			continue
		}
		if n > len(data) {
			return nil, io.ErrUnexpectedEOF
		}
		payloads = append(payloads, data[:n])
		data = data[n:]
	}
	return payloads, nil
}
