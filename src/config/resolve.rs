//! Fills in what a configuration leaves to tapflow: the data folder, `{data_dir}` in paths, and names.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::outputs::options::OutputKind;
use crate::units::Endpoint;

/// What decides where the data folder is when `data_dir` is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// Whether this process runs as root.
    pub root: bool,
    /// `$XDG_STATE_HOME`.
    pub xdg_state_home: Option<PathBuf>,
    /// `$HOME`.
    pub home: Option<PathBuf>,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_process() -> Self {
        let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
        Self {
            root: rustix::process::geteuid().is_root(),
            xdg_state_home: path("XDG_STATE_HOME"),
            home: path("HOME"),
        }
    }

    /// The data folder: `/var/lib/tapflow` for root; else `tapflow` in `$XDG_STATE_HOME`, or in `.local/state` in the
    /// home folder; else `tapflow-data` in the folder tapflow was started in. The XDG base directory specification
    /// wants a relative `$XDG_STATE_HOME` ignored.
    pub fn data_dir(&self) -> PathBuf {
        if self.root {
            return PathBuf::from("/var/lib/tapflow");
        }
        let absolute = |path: &Option<PathBuf>| path.clone().filter(|path| path.is_absolute());
        if let Some(state) = absolute(&self.xdg_state_home) {
            return state.join("tapflow");
        }
        match absolute(&self.home) {
            Some(home) => home.join(".local/state/tapflow"),
            None => PathBuf::from("tapflow-data"),
        }
    }
}

impl Config {
    /// The same configuration with nothing left open: `data_dir` set, `{data_dir}` replaced, every listener and output
    /// named. Resolving a second time changes nothing. Two resolved configurations can be compared piece by piece.
    #[must_use]
    pub fn resolve(&self, surroundings: &Surroundings) -> Self {
        let mut config = self.clone();
        if config.data_dir.as_os_str().is_empty() {
            config.data_dir = surroundings.data_dir();
        }
        let (listeners, outputs) = (config.listener_names(), config.output_names());
        let folder = config.data_dir.clone();
        for (listener, name) in config.listener.iter_mut().zip(listeners) {
            listener.name = name;
            place(&mut listener.uri, &folder);
            let (cert, key) = (&mut listener.tls_cert, &mut listener.tls_key);
            expand_all([cert, key, &mut listener.tls_client_ca], &folder);
        }
        for stage in &mut config.stage {
            for file in stage.files_mut() {
                *file = expand(file, &folder);
            }
        }
        for (output, name) in config.output.iter_mut().zip(outputs) {
            output.name = name;
            match &mut output.kind {
                OutputKind::File(file) => file.path = expand(&file.path, &folder),
                OutputKind::Dnstap(dnstap) => {
                    place(&mut dnstap.to, &folder);
                    let (cert, key) = (&mut dnstap.tls_cert, &mut dnstap.tls_key);
                    expand_all([cert, key, &mut dnstap.tls_ca], &folder);
                }
                OutputKind::Mux(mux) => {
                    mux.workers.iter_mut().for_each(|w| place(w, &folder));
                }
                OutputKind::Null(_) | OutputKind::Stdout(_) => {}
            }
        }
        let http = &mut config.http;
        let (cert, key) = (&mut http.tls_cert, &mut http.tls_key);
        expand_all([cert, key, &mut http.tls_client_ca], &folder);
        config
    }

    /// The listeners' names, made from their places where none is given: `unix-dnstap`, `tcp-6000`.
    pub fn listener_names(&self) -> Vec<String> {
        complete(
            self.listener
                .iter()
                .map(|listener| (listener.name.clone(), place_name(&listener.uri)))
                .collect(),
        )
    }

    /// The outputs' names, made from their types where none is given: `file`, `file-2`.
    pub fn output_names(&self) -> Vec<String> {
        complete(
            self.output
                .iter()
                .map(|output| (output.name.clone(), output.kind.type_name().to_owned()))
                .collect(),
        )
    }
}

fn place(endpoint: &mut Endpoint, folder: &Path) {
    if let Endpoint::Unix(path) = endpoint.carrier_mut() {
        *path = expand(path, folder);
    }
}

fn expand_all(paths: [&mut PathBuf; 3], folder: &Path) {
    for path in paths {
        *path = expand(path, folder);
    }
}

fn expand(path: &Path, folder: &Path) -> PathBuf {
    match path.strip_prefix("{data_dir}") {
        Ok(rest) if rest.as_os_str().is_empty() => folder.to_path_buf(),
        Ok(rest) => folder.join(rest),
        Err(_) => path.to_path_buf(),
    }
}

fn place_name(uri: &Endpoint) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') {
            c
        } else {
            '-'
        }
    };
    match uri {
        Endpoint::Unix(path) => {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            format!(
                "unix-{}",
                stem.chars().map(plain).take(48).collect::<String>()
            )
        }
        Endpoint::Tcp { port, .. } => format!("tcp-{port}"),
        Endpoint::Mux(carrier) => format!("mux-{}", place_name(carrier)),
        Endpoint::Tls { port, .. } => format!("tls-{port}"),
    }
}

/// Names as given, and for the others their stem, with a number where the stem is taken.
fn complete(entries: Vec<(String, String)>) -> Vec<String> {
    let mut taken: HashSet<String> = entries
        .iter()
        .map(|(name, _)| name.clone())
        .filter(|name| !name.is_empty())
        .collect();
    let mut names = Vec::with_capacity(entries.len());
    for (name, stem) in entries {
        if !name.is_empty() {
            names.push(name);
            continue;
        }
        let numbered = (2u64..).map(|n| format!("{stem}-{n}"));
        let free = std::iter::once(stem.clone())
            .chain(numbered)
            .find(|name| !taken.contains(name));
        let name = free.unwrap_or(stem);
        taken.insert(name.clone());
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outputs::options::{NullOptions, OutputOptions};
    use crate::transport::options::ListenerOptions;

    #[test]
    fn the_data_folder_is_where_the_system_keeps_such_things() {
        let path = |text: &str| Some(PathBuf::from(text));
        for (root, xdg, home, want) in [
            (true, path("/x"), path("/h"), "/var/lib/tapflow"),
            (false, path("/x"), path("/h"), "/x/tapflow"),
            (
                false,
                path("relative"),
                path("/h"),
                "/h/.local/state/tapflow",
            ),
            (false, path(""), path("/h"), "/h/.local/state/tapflow"),
            (false, None, None, "tapflow-data"),
        ] {
            let surroundings = Surroundings {
                root,
                xdg_state_home: xdg,
                home,
            };
            assert_eq!(
                surroundings.data_dir(),
                PathBuf::from(want),
                "{surroundings:?}"
            );
        }
    }

    #[test]
    fn resolving_fills_in_folder_paths_and_names_and_is_done_once() {
        let surroundings = Surroundings {
            root: true,
            ..Surroundings::default()
        };
        let resolved = Config::default().resolve(&surroundings);
        assert_eq!(
            resolved.listener[0].uri,
            Endpoint::unix("/var/lib/tapflow/dnstap.sock")
        );
        assert_eq!(resolved.listener[0].name, "unix-dnstap");
        assert_eq!(resolved.listener[1].name, "tcp-6000");
        let OutputKind::File(file) = &resolved.output[0].kind else {
            panic!("{:?}", resolved.output)
        };
        assert_eq!(file.path, PathBuf::from("/var/lib/tapflow/frames"));
        assert_eq!(resolved.resolve(&Surroundings::default()), resolved);
    }

    #[test]
    fn made_up_names_leave_given_ones_alone() {
        let mut config = Config::default();
        let null = OutputOptions::new(OutputKind::Null(NullOptions {}));
        config.output = vec![
            null.clone(),
            OutputOptions {
                name: "null-2".to_owned(),
                ..null.clone()
            },
            null.clone(),
            null,
        ];
        assert_eq!(
            config.output_names(),
            ["null", "null-2", "null-3", "null-4"]
        );
        let on = |uri: Endpoint| ListenerOptions {
            uri,
            ..ListenerOptions::default()
        };
        config.listener = vec![
            on(Endpoint::unix("/run/a b.sock")),
            on(Endpoint::tcp("::1", 7)),
            on(Endpoint::tcp("::2", 7)),
        ];
        assert_eq!(config.listener_names(), ["unix-a-b", "tcp-7", "tcp-7-2"]);
    }
}
