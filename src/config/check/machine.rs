//! What this machine has and has not: users, groups, folders.

use std::path::Path;

use crate::config::Config;
use crate::config::problem::Problem;
use crate::outputs::options::OutputKind;
use crate::transport::options::ListenerOptions;
use crate::units::{Endpoint, UNIX_PATH_MAX};

/// What a resolved configuration (see [`Config::resolve`]) needs of this machine and does not find: warnings, except
/// for a socket path that has become too long.
pub fn machine(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (i, listener) in config.listener.iter().enumerate() {
        let place = |key: &str| format!("listener[{i}].{key}");
        let Endpoint::Unix(socket) = &listener.uri else {
            continue;
        };
        let length = socket.as_os_str().len();
        if length > UNIX_PATH_MAX {
            let what = format!(
                "{} has {length} bytes, and a Unix socket's path has at most {UNIX_PATH_MAX}",
                socket.display()
            );
            problems.push(
                Problem::error(place("uri"), what)
                    .fix("use a shorter path or a shorter `data_dir`"),
            );
        }
        if let Some(what) = folder_fault(socket.parent().unwrap_or_else(|| Path::new("/"))) {
            problems.push(Problem::warning(place("uri"), what));
        }
        if socket
            .symlink_metadata()
            .is_ok_and(|found| !is_socket(&found))
        {
            let what = format!(
                "{} exists and is not a socket, so it will not be replaced",
                socket.display()
            );
            problems
                .push(Problem::warning(place("uri"), what).fix("move it away or use another path"));
        }
        users(listener, &place, &mut problems);
    }
    for (i, stage) in config.stage.iter().enumerate() {
        for file in stage.clone().files_mut() {
            if !file.as_os_str().is_empty() && !file.is_file() {
                let what = format!("{} is no file on this machine", file.display());
                problems.push(Problem::warning(format!("stage[{i}]"), what));
            }
        }
    }
    for (i, output) in config.output.iter().enumerate() {
        if let OutputKind::File(file) = &output.kind
            && let Some(what) = folder_fault(&file.path)
        {
            problems.push(Problem::warning(format!("output[{i}].path"), what));
        }
    }
    super::tls::files(config, &mut problems);
    problems
}

/// Owner and group that this machine does not know.
fn users(listener: &ListenerOptions, place: &dyn Fn(&str) -> String, problems: &mut Vec<Problem>) {
    let user = &listener.owner;
    if !user.is_empty() && user.parse::<u32>().is_err() && uzers::get_user_by_name(user).is_none() {
        problems.push(Problem::warning(
            place("owner"),
            format!("this machine has no user \"{user}\""),
        ));
    }
    for (i, user) in listener.allow_users.iter().enumerate() {
        if user.parse::<u32>().is_err() && uzers::get_user_by_name(user).is_none() {
            let what = format!("this machine has no user \"{user}\", so it lets nobody in");
            problems.push(Problem::warning(place(&format!("allow_users[{i}]")), what));
        }
    }
    for (i, group) in listener.allow_groups.iter().enumerate() {
        if group.parse::<u32>().is_err() && uzers::get_group_by_name(group).is_none() {
            let what = format!("this machine has no group \"{group}\", so it lets nobody in");
            problems.push(Problem::warning(place(&format!("allow_groups[{i}]")), what));
        }
    }
    let group = &listener.group;
    if !group.is_empty()
        && group.parse::<u32>().is_err()
        && uzers::get_group_by_name(group).is_none()
    {
        problems.push(Problem::warning(
            place("group"),
            format!("this machine has no group \"{group}\""),
        ));
    }
}

fn is_socket(found: &std::fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&found.file_type())
}

/// Why a folder is neither there nor can be made by this user, as far as can be seen without making it.
fn folder_fault(folder: &Path) -> Option<String> {
    if folder.as_os_str().is_empty() {
        return None;
    }
    let nearest = folder
        .ancestors()
        .find(|path| path.symlink_metadata().is_ok())?;
    if !nearest.is_dir() {
        return Some(format!("{} is not a folder", nearest.display()));
    }
    let writable = rustix::fs::access(
        nearest,
        rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK,
    )
    .is_ok();
    match (writable, nearest == folder) {
        (true, _) => None,
        (false, true) => Some(format!("this user may not write into {}", folder.display())),
        (false, false) => Some(format!(
            "{} does not exist, and this user may not make it in {}",
            folder.display(),
            nearest.display()
        )),
    }
}
