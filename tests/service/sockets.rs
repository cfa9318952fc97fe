//! Places to listen that are taken, dead, or not what they seem.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;

use crate::support::program::Program;

fn null(program: Program) -> Program {
    program.arg("--output").arg("null:")
}

/// B035: a socket that a dead process left is taken over.
#[test]
fn a_stale_socket_is_taken_over() {
    let program = null(Program::new().unix());
    drop(UnixListener::bind(program.path("in.sock")).expect("a socket"));
    let started = program.start();
    assert!(
        !started.lines_with("dead process").is_empty(),
        "{:#?}",
        started.lines()
    );
    assert_eq!(started.terminate().0, Some(0));
}

/// B035: a live one is not, and the message says so; whoever listens there goes on.
#[test]
fn a_live_socket_makes_the_start_fail_and_stays() {
    let first = null(Program::new().unix()).start();
    let second = null(Program::new())
        .arg("--listen")
        .arg(first.unix().to_string());
    let (code, said) = second.fails();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("another process listens on this socket"),
        "{said}"
    );
    assert!(first.path("in.sock").exists());
    assert_eq!(first.get("/readyz").expect("a page").0, 200);
    assert_eq!(first.terminate().0, Some(0));
}

/// A live socket whose backlog is full cannot be connected to; that does not make it a dead one, nor the start hang.
#[test]
fn a_live_socket_that_accepts_nobody_makes_the_start_fail_too() {
    let program = null(Program::new().unix());
    let path = program.path("in.sock");
    let socket =
        socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("a socket");
    socket
        .bind(&socket2::SockAddr::unix(&path).expect("an address"))
        .expect("it binds");
    socket.listen(0).expect("it listens");
    let client =
        socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("a socket");
    client
        .connect(&socket2::SockAddr::unix(&path).expect("an address"))
        .expect("one fits into the backlog");
    let (code, said) = program.fails();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("another process listens on this socket"),
        "{said}"
    );
    assert!(path.exists());
}

/// B035: what is not a socket is never removed.
#[test]
fn something_that_is_not_a_socket_is_left_alone() {
    let program = null(Program::new().unix());
    std::fs::write(program.path("in.sock"), "precious").expect("a file");
    let (code, said) = program.fails();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("not a socket"), "{said}");
    assert_eq!(
        std::fs::read(program.path("in.sock")).expect("the file"),
        b"precious"
    );
}

#[test]
fn a_folder_that_is_missing_and_a_port_in_use_are_explained() {
    let program = Program::new();
    let missing = program.path("no/such/folder/in.sock");
    let (code, said) = null(program)
        .arg("--listen")
        .arg(format!("unix:{}", missing.display()))
        .fails();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("does not exist"), "{said}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let uri = format!("tcp:{}", taken.local_addr().expect("an address"));
    let (code, said) = null(Program::new()).arg("--listen").arg(uri).fails();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("another process listens on this port"),
        "{said}"
    );
}

/// B036: mode and owner are settings, and are in place when the first connection can come.
#[test]
fn the_socket_has_the_mode_owner_and_group_that_are_set() {
    let me = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    // Only root may give a socket away.
    let (owner, group) = if me.0 == 0 { (65_534, 65_534) } else { me };
    let toml = format!(
        "[[listener]]\nuri = \"unix:{{folder}}/in.sock\"\nsocket_mode = \"0620\"\nowner = \"{owner}\"\ngroup = \"{group}\"\n[[output]]\ntype = \"null\"\n"
    );
    let program = Program::new().config(&toml).start();
    let meta = std::fs::symlink_metadata(program.path("in.sock")).expect("the socket");
    assert!(meta.file_type().is_socket());
    assert_eq!(
        (meta.permissions().mode() & 0o7777, meta.uid(), meta.gid()),
        (0o620, owner, group)
    );
    assert_eq!(program.terminate().0, Some(0));
    let toml = "[[listener]]\nuri = \"unix:{folder}/in.sock\"\nowner = \"no-such-user-here\"\n[[output]]\ntype = \"null\"\n";
    let (code, said) = Program::new().config(toml).fails();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no-such-user-here"), "{said}");
}
