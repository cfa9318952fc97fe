//! The simplest ends of a Frame Streams connection over a Unix socket: a sender's handshake, a receiver that keeps nothing,
//! a copier. They are what tapflow is put between and measured against.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::JoinHandle;

use super::Result;
use super::input::{START, STOP};

/// Bytes that one read asks for, as tapflow's do.
const READ: usize = 256 * 1024;
const FINISH: &[u8] = b"\0\0\0\0\0\0\0\x04\0\0\0\x05";

/// A control frame of this type with dnstap's content type.
fn control(kind: u8) -> Vec<u8> {
    let mut frame = START.to_vec();
    frame[11] = kind;
    frame
}

/// Connects and makes the handshake of a bidirectional sender, START included.
///
/// # Errors
/// Nobody listens, or the answer is no ACCEPT.
pub(crate) fn connect(path: &str) -> Result<UnixStream> {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(&control(4))?;
    let mut answer = vec![0; START.len()];
    stream.read_exact(&mut answer)?;
    if answer != control(1) {
        return Err(format!("not the ACCEPT that was expected: {answer:?}").into());
    }
    stream.write_all(START)?;
    Ok(stream)
}

/// Takes one connection, answers its handshake and its STOP and keeps nothing; gives the bytes of data.
///
/// # Errors
/// The place cannot be had.
pub(crate) fn sink(path: &Path) -> Result<JoinHandle<std::io::Result<usize>>> {
    let listener = UnixListener::bind(path)?;
    Ok(std::thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        let mut head = vec![0; START.len()];
        stream.read_exact(&mut head)?;
        stream.write_all(&control(1))?;
        stream.read_exact(&mut head)?;
        let mut buf = vec![0; READ];
        let (mut bytes, mut tail) = (0, Vec::new());
        loop {
            let n = stream.read(&mut buf)?;
            bytes += n;
            // Whether what came ends with STOP, also when that came in pieces.
            tail.extend_from_slice(&buf[n.saturating_sub(STOP.len())..n]);
            tail.drain(..tail.len().saturating_sub(STOP.len()));
            if tail == STOP {
                stream.write_all(FINISH)?;
                return Ok(bytes - STOP.len());
            }
            if n == 0 {
                return Ok(bytes);
            }
        }
    }))
}

/// Takes one connection and copies it to another place and back, a read and a write at a time.
///
/// # Errors
/// The place cannot be had.
pub(crate) fn copier(path: &Path, to: &Path) -> Result<JoinHandle<std::io::Result<()>>> {
    let listener = UnixListener::bind(path)?;
    let to = to.to_owned();
    Ok(std::thread::spawn(move || {
        let (from, _) = listener.accept()?;
        let to = UnixStream::connect(to)?;
        let (back_from, back_to) = (to.try_clone()?, from.try_clone()?);
        let back = std::thread::spawn(move || copy(back_from, back_to));
        copy(from, to)?;
        back.join().unwrap_or(Ok(()))
    }))
}

fn copy(mut from: UnixStream, mut to: UnixStream) -> std::io::Result<()> {
    let mut buf = vec![0; READ];
    loop {
        let n = from.read(&mut buf)?;
        if n == 0 {
            return to.shutdown(std::net::Shutdown::Write);
        }
        to.write_all(&buf[..n])?;
    }
}
