//! Entry for fuzzing: whatever a peer sends.

use super::{Config, Core, ReadBuffer, Received, Role};

/// Feeds octets to a session as its peer would, in pieces whose lengths follow from the octets, and checks that the session
/// stays within its configuration. The first octet decides how much is read back.
///
/// # Panics
///
/// When a bound is broken.
pub fn fuzz_wire(octets: &[u8]) {
    let Some((&how, mut rest)) = octets.split_first() else {
        return;
    };
    let role = if how & 1 == 0 {
        Role::Server
    } else {
        Role::Client
    };
    let config = Config {
        receive_cap: 2 * 1024 * 1024,
        max_streams: 6,
        accept_backlog: 3,
        ..Config::default()
    };
    let (cap, most) = (config.receive_cap, config.max_streams);
    let mut core = Core::new(role, config);
    if how & 2 != 0 {
        let _ = core.open(false);
    }
    let mut buf = ReadBuffer::default();
    let mut held = Vec::new();
    while let Some(&first) = rest.first() {
        let (piece, after) = rest.split_at(rest.len().min(1 + usize::from(first) * 7));
        rest = after;
        buf.extend(piece);
        core.receive(&mut buf);
        if how & 4 != 0 {
            held.extend(core.accept());
        }
        if how & 8 != 0 {
            for id in &held {
                while let Ok(Received::Octets(_)) = core.recv(*id, 1000) {}
            }
        }
        if how & 16 != 0
            && let Some(id) = held.pop()
        {
            let _ = core.send_slice(id, piece);
            core.release(id);
        }
        let mut batch = core.take();
        core.written(&mut batch);
        while core.poll_event().is_some() {}
        let status = core.status();
        assert!(
            status.promised <= cap && status.buffered <= cap,
            "{status:?}"
        );
        assert!(
            status.remote_streams <= most && status.backlog <= 3,
            "{status:?}"
        );
    }
    core.end_of_input(buf.len());
    assert!(core.closed().is_some(), "the end of input closes");
}
