#!/usr/bin/env python3
"""A worker in Python, without any library: takes the streams of a tapflow output of type "mux".

It speaks yamux and Frame Streams as far as a worker needs them, acknowledges what it has written
(protobuf:dnstap.Dnstap+ack), and writes each frame with its length before it into a file.

    ./worker.py 127.0.0.1:6001 frames.bin
"""

import socketserver
import struct
import sys
import threading

DATA, WINDOW, PING, GO_AWAY = range(4)
SYN, ACK, FIN, RST = 1, 2, 4, 8
INITIAL_WINDOW = 256 * 1024

ACCEPT, START, STOP, READY, FINISH = 1, 2, 3, 4, 5
TAKEN = 0x74617002
PLAIN, ACKED = b"protobuf:dnstap.Dnstap", b"protobuf:dnstap.Dnstap+ack"


def control(kind, body=b""):
    """A Frame Streams control frame."""
    return struct.pack(">III", 0, 4 + len(body), kind) + body


class Stream:
    """One Frame Streams connection: octets in, answers out, frames to the sink."""

    def __init__(self, sink):
        self.sink, self.buffer = sink, bytearray()
        self.acknowledged, self.frames = False, 0

    def feed(self, octets):
        """Takes octets and gives what is to be answered."""
        self.buffer += octets
        answer, at, frames = b"", 0, []
        while len(self.buffer) - at >= 4:
            (length,) = struct.unpack_from(">I", self.buffer, at)
            if length:
                if len(self.buffer) - at < 4 + length:
                    break
                frames.append(bytes(self.buffer[at : at + 4 + length]))
                at += 4 + length
                continue
            if len(self.buffer) - at < 8:
                break
            (length,) = struct.unpack_from(">I", self.buffer, at + 4)
            if len(self.buffer) - at < 8 + length:
                break
            body = bytes(self.buffer[at + 8 : at + 8 + length])
            at += 8 + length
            (kind,) = struct.unpack_from(">I", body)
            if kind == READY:
                self.acknowledged = ACKED in types_of(body)
                chosen = ACKED if self.acknowledged else PLAIN
                answer += control(ACCEPT, struct.pack(">II", 1, len(chosen)) + chosen)
            elif kind == STOP:
                answer += self.write(frames) + control(FINISH)
                frames = []
        del self.buffer[:at]
        return answer + self.write(frames)

    def write(self, frames):
        """Writes frames, and then says that they are taken."""
        if not frames:
            return b""
        self.sink.write(b"".join(frames), len(frames))
        self.frames += len(frames)
        return control(TAKEN, struct.pack(">Q", self.frames)) if self.acknowledged else b""


def types_of(body):
    """The content types of a control frame."""
    found, at = [], 4
    while at + 8 <= len(body):
        _, length = struct.unpack_from(">II", body, at)
        found.append(body[at + 8 : at + 8 + length])
        at += 8 + length
    return found


class Sink:
    """Where all streams write."""

    def __init__(self, path):
        self.file, self.lock, self.frames = open(path, "wb"), threading.Lock(), 0

    def write(self, octets, frames):
        with self.lock:
            self.file.write(octets)
            self.file.flush()
            self.frames += frames


class Session(socketserver.BaseRequestHandler):
    """One yamux session, as the end that accepts streams."""

    def send(self, kind, flags, stream, length, octets=b""):
        self.request.sendall(struct.pack(">BBHII", 0, kind, flags, stream, length) + octets)

    def receive(self, n):
        octets = bytearray()
        while len(octets) < n:
            more = self.request.recv(n - len(octets))
            if not more:
                raise EOFError
            octets += more
        return bytes(octets)

    def handle(self):
        streams = {}
        try:
            while True:
                _, kind, flags, number, length = struct.unpack(">BBHII", self.receive(12))
                if kind == PING and flags & SYN:
                    self.send(PING, ACK, 0, length)
                if kind in (DATA, WINDOW):
                    if flags & SYN:
                        streams[number] = Stream(self.server.sink)
                        self.send(WINDOW, ACK, number, 0)
                    self.data(streams, number, self.receive(length) if kind == DATA else b"")
                    if flags & (FIN | RST) and streams.pop(number, None):
                        print("stream ended, frames so far", self.server.sink.frames, flush=True)
                        if flags & FIN:
                            self.send(WINDOW, FIN, number, 0)
        except (EOFError, ConnectionError):
            pass

    def data(self, streams, number, octets):
        stream = streams.get(number)
        if not octets or stream is None:
            return
        answer = stream.feed(octets)
        # What was read may be sent again. Answers are few, and stay far below the window that the other end gives.
        self.send(WINDOW, 0, number, len(octets))
        if answer:
            self.send(DATA, 0, number, len(answer), answer)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads = True, True


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    with Server((host, int(port)), Session) as server:
        server.sink = Sink(sys.argv[2])
        print("listening %s:%d" % server.server_address, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
