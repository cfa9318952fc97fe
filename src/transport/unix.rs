//! Unix sockets: the file's life. It is made with its mode and owner before the first connection can come in, a dead one left
//! by a crash is taken away, a live one or anything that is not a socket is never touched, and it goes when we do.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::UnixListener;

use crate::transport::BindError;

/// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
pub(crate) const BACKLOG: i32 = 1024;

/// Who may use the socket file.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Permission bits, such as `0o660`.
    pub mode: u32,
    /// User name or number; `None` leaves our own.
    pub owner: Option<String>,
    /// Group name or number; `None` leaves our own.
    pub group: Option<String>,
}

/// The socket file, removed when this is dropped if it is still the one that we made.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    id: FileId,
}

/// Device, inode and time of making: an inode's number alone is used again at once for the next file.
type FileId = (u64, u64, i64, i64);

fn file_id(meta: &fs::Metadata) -> FileId {
    (meta.dev(), meta.ino(), meta.mtime(), meta.mtime_nsec())
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have started in our place meanwhile; their socket is not ours to remove.
        if fs::symlink_metadata(&self.path).is_ok_and(|m| file_id(&m) == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds a Unix stream socket at `path`.
///
/// # Errors
/// Says what stands in the way and what to do about it: the folder is missing, something else is at `path`, another process
/// listens there, the owner or group is unknown or may not be given.
pub fn bind(path: &Path, access: &Access) -> Result<(UnixListener, SocketFile), BindError> {
    clear_stale(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(BindError::from)?;
    let address = SockAddr::unix(path).map_err(|e| {
        BindError::new(
            e,
            format!(
                "{}: a socket path has at most 107 bytes; choose a shorter one",
                path.display()
            ),
        )
    })?;
    socket.bind(&address).map_err(|e| explain(e, path))?;
    let meta = fs::symlink_metadata(path).map_err(|e| explain(e, path))?;
    let file = SocketFile {
        path: path.to_owned(),
        id: file_id(&meta),
    };
    // Until listen() a connect is refused, so nobody gets in before mode and owner are right.
    apply(path, access)?;
    socket.listen(BACKLOG).map_err(|e| explain(e, path))?;
    socket.set_nonblocking(true).map_err(BindError::from)?;
    let listener = UnixListener::from_std(socket.into()).map_err(BindError::from)?;
    Ok((listener, file))
}

fn explain(error: io::Error, path: &Path) -> BindError {
    let parent = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."));
    let advice = match error.kind() {
        io::ErrorKind::NotFound => format!(
            "{}: the folder {} does not exist; make it first",
            path.display(),
            parent.display()
        ),
        io::ErrorKind::PermissionDenied => {
            format!(
                "{}: no permission to make a socket in {}; run as its owner or choose another path",
                path.display(),
                parent.display()
            )
        }
        _ => format!("{}: {error}", path.display()),
    };
    BindError::new(error, advice)
}

/// Takes away a socket that nobody listens on.
fn clear_stale(path: &Path) -> Result<(), BindError> {
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(explain(e, path)),
    };
    let in_use = |text: String| BindError::new(io::Error::from(io::ErrorKind::AddrInUse), text);
    if !meta.file_type().is_socket() {
        return Err(in_use(format!(
            "{}: something that is not a socket is there; it is left alone, choose another path or move it",
            path.display()
        )));
    }
    match probe(path) {
        // Its backlog is full: whoever listens there is too busy to accept, but not dead.
        Ok(()) | Err(Errno::AGAIN) => Err(in_use(format!(
            "{}: another process listens on this socket; stop it or choose another path",
            path.display()
        ))),
        Err(Errno::CONNREFUSED) => {
            tracing::info!(path = %path.display(), "removing a socket file that a dead process left");
            fs::remove_file(path).map_err(|e| explain(e, path))
        }
        Err(e) => Err(in_use(format!(
            "{}: cannot tell whether somebody listens on this socket ({}); it is left alone",
            path.display(),
            io::Error::from(e)
        ))),
    }
}

/// Connects to the socket at `path` and hangs up. Never waits: a connect that blocks would wait for ever on a listener that
/// does not accept.
fn probe(path: &Path) -> Result<(), Errno> {
    let connect = || -> io::Result<()> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.connect(&SockAddr::unix(path)?)
    };
    connect().map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::INVAL))
}

fn apply(path: &Path, access: &Access) -> Result<(), BindError> {
    let uid = access.owner.as_deref().map(user_id).transpose()?;
    let gid = access.group.as_deref().map(group_id).transpose()?;
    if uid.is_some() || gid.is_some() {
        chown(path, uid, gid).map_err(|e| {
            let text = format!(
                "{}: cannot give the socket to {:?}:{:?} ({e}); this needs root or membership of the group",
                path.display(),
                access.owner,
                access.group
            );
            BindError::new(e, text)
        })?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(access.mode)).map_err(|e| explain(e, path))
}

/// The number of a user, by name or number.
pub(crate) fn user_id(name: &str) -> Result<u32, BindError> {
    name.parse()
        .ok()
        .or_else(|| uzers::get_user_by_name(name).map(|u| u.uid()))
        .ok_or_else(|| {
            BindError::new(
                io::Error::from(io::ErrorKind::NotFound),
                format!("owner {name:?}: there is no such user on this machine"),
            )
        })
}

/// The number of a group, by name or number.
pub(crate) fn group_id(name: &str) -> Result<u32, BindError> {
    name.parse()
        .ok()
        .or_else(|| uzers::get_group_by_name(name).map(|g| g.gid()))
        .ok_or_else(|| {
            BindError::new(
                io::Error::from(io::ErrorKind::NotFound),
                format!("group {name:?}: there is no such group on this machine"),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(mode: u32) -> Access {
        Access {
            mode,
            owner: None,
            group: None,
        }
    }

    #[tokio::test]
    async fn the_socket_has_its_mode_and_goes_away_with_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let (listener, file) = bind(&path, &access(0o604)).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o604
        );
        drop(listener);
        drop(file);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_dead_socket_is_taken_over_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "the dead socket file is there");
        let (_listener, _file) = bind(&path, &access(0o600)).unwrap();
        let err = bind(&path, &access(0o600)).unwrap_err();
        assert!(err.to_string().contains("another process listens"), "{err}");
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_live_socket_whose_backlog_is_full_is_live() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let busy = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        busy.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        busy.listen(0).unwrap();
        let _waits = std::os::unix::net::UnixStream::connect(&path).unwrap();
        assert_eq!(probe(&path), Err(Errno::AGAIN));
        let err = bind(&path, &access(0o600)).unwrap_err();
        assert!(err.to_string().contains("another process listens"), "{err}");
        assert!(path.exists());
    }

    #[tokio::test]
    async fn what_is_not_a_socket_is_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("precious");
        fs::write(&path, "data").unwrap();
        let err = bind(&path, &access(0o600)).unwrap_err();
        assert!(err.to_string().contains("not a socket"), "{err}");
        assert_eq!(fs::read(&path).unwrap(), b"data");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(bind(&link, &access(0o600)).is_err());
        assert!(path.exists() && link.symlink_metadata().is_ok());
    }

    #[tokio::test]
    async fn a_socket_that_somebody_else_made_in_our_place_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let (listener, file) = bind(&path, &access(0o600)).unwrap();
        drop(listener);
        fs::remove_file(&path).unwrap();
        let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(file);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn errors_say_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("no/such/s");
        assert!(
            bind(&missing, &access(0o600))
                .unwrap_err()
                .to_string()
                .contains("does not exist; make it first")
        );
        let long = dir.path().join("x".repeat(120));
        assert!(
            bind(&long, &access(0o600))
                .unwrap_err()
                .to_string()
                .contains("107 bytes")
        );
        let path = dir.path().join("s");
        let nobody = Access {
            mode: 0o600,
            owner: Some("no-such-user-here".into()),
            group: None,
        };
        assert!(
            bind(&path, &nobody)
                .unwrap_err()
                .to_string()
                .contains("no such user")
        );
        assert!(
            !path.exists(),
            "a socket that could not be set up does not stay"
        );
    }
}
