//! The registered_domain stage: the name that somebody registered, by the public suffix list, as tag `registered_domain`.
//!
//! `www.example.co.uk` gives `example.co.uk`. A name that is a public suffix itself, or the root, gives no tag. Names whose
//! top-level domain is not in the list are taken to be below a suffix of one label, as the list's own rule `*` says.

use std::path::Path;
use std::sync::Arc;

use psl::{Info, Psl};

use crate::dns::name::{Name, WIRE_MAX, is_bare};
use crate::dnstap::edit::{Edit, Settable};
use crate::dnstap::tags::TagWriter;
use crate::pipeline::batch::Origin;
use crate::pipeline::stage::{Record, Stage, StageFactory, Verdict};
use crate::stages::StageError;
use crate::stages::rewrite::{Replacement, parts};
use crate::stages::transform_options::RegisteredDomainOptions;

/// The tag's name.
pub const TAG: &[u8] = b"registered_domain";

/// Most labels of a name before the root.
const LABELS_MAX: usize = 127;

/// Makes registered_domain stages.
pub struct Factory(Arc<List>);

enum List {
    BuiltIn,
    File(publicsuffix::List),
}

impl List {
    fn find<'a>(&self, labels: impl Iterator<Item = &'a [u8]>) -> Info {
        match self {
            Self::BuiltIn => psl::List.find(labels),
            Self::File(list) => list.find(labels),
        }
    }
}

impl std::fmt::Debug for Factory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("registered_domain::Factory")
    }
}

impl Factory {
    /// Reads the list, where another one than that built in is named.
    ///
    /// # Errors
    /// A file that is not there or no public suffix list.
    pub fn new(options: &RegisteredDomainOptions) -> Result<Self, StageError> {
        let list = match options.list.as_os_str().is_empty() {
            true => List::BuiltIn,
            false => List::File(read_list(&options.list)?),
        };
        Ok(Self(Arc::new(list)))
    }
}

fn read_list(path: &Path) -> Result<publicsuffix::List, StageError> {
    let fault = |why: String| StageError::File {
        path: path.to_owned(),
        why,
    };
    let octets = std::fs::read(path).map_err(|error| fault(error.to_string()))?;
    let list = publicsuffix::List::from_bytes(&octets)
        .map_err(|error| fault(format!("no public suffix list: {error}")))?;
    if list.is_empty() {
        return Err(fault("a public suffix list without a rule".to_owned()));
    }
    Ok(list)
}

impl StageFactory for Factory {
    fn build(&self, _origin: &Origin) -> Box<dyn Stage> {
        Box::new(RegisteredDomain {
            list: self.0.clone(),
            domain: Vec::new(),
            writer: TagWriter::default(),
            out: Replacement::default(),
        })
    }

    fn replaces(&self) -> bool {
        true
    }
}

struct RegisteredDomain {
    list: Arc<List>,
    domain: Vec<u8>,
    writer: TagWriter,
    out: Replacement,
}

impl Stage for RegisteredDomain {
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
        let Some((view, _)) = parts(record) else {
            return Verdict::Keep;
        };
        let Some(question) = record.dns().and_then(|dns| dns.question()) else {
            return Verdict::Keep;
        };
        self.domain.clear();
        if registered(&self.list, &question.name, &mut self.domain).is_none() {
            return Verdict::Keep;
        }
        self.writer.begin(view.extra, |old| old == TAG);
        self.writer.push(TAG, &self.domain);
        let mut edit = Edit::default();
        edit.set(Settable::Extra, self.writer.as_bytes());
        self.out.make(record, &edit)
    }

    fn replacement(&self) -> &[u8] {
        self.out.as_bytes()
    }
}

/// Appends the registered domain of `name` as text in small letters, without the final dot, octets that are not bare in
/// BIND's form of names as `\ddd`.
fn registered(list: &List, name: &Name<'_>, out: &mut Vec<u8>) -> Option<()> {
    let (mut small, mut end) = ([0u8; WIRE_MAX], 0);
    let mut ends = [0usize; LABELS_MAX];
    let mut count = 0;
    for label in name.labels() {
        let place = small.get_mut(end..end + label.len())?;
        place.copy_from_slice(label);
        place.make_ascii_lowercase();
        end += label.len();
        *ends.get_mut(count)? = end;
        count += 1;
    }
    let label = |i: usize| {
        let from = i.checked_sub(1).map_or(0, |before| ends[before]);
        &small[from..ends[i]]
    };
    // The length of the suffix is that of its text: labels with a dot between two.
    let suffix = list.find((0..count).rev().map(label)).len;
    let (mut len, mut first) = (0, count);
    while len < suffix && first > 0 {
        first -= 1;
        len += label(first).len() + usize::from(len > 0);
    }
    if len != suffix || suffix == 0 {
        return None;
    }
    for i in first.checked_sub(1)?..count {
        if i >= first {
            out.push(b'.');
        }
        for &octet in label(i) {
            if is_bare(octet) {
                out.push(octet);
            } else {
                let digit = |value: u8| b'0' + value % 10;
                out.extend([b'\\', digit(octet / 100), digit(octet / 10), digit(octet)]);
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::dns::NameBuf;
    use crate::dnstap::DnstapView;
    use crate::stages::rewrite::tests::{payload, through, view};

    fn domain(list: &List, name: &str) -> Option<String> {
        let name = NameBuf::parse(name).unwrap();
        let mut out = Vec::new();
        registered(list, &name.as_name(), &mut out)?;
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_list_says_where_a_registered_name_begins() {
        for (name, want) in [
            ("www.Example.COM", Some("example.com")),
            ("example.com", Some("example.com")),
            ("com", None),
            (".", None),
            ("a.b.example.co.uk", Some("example.co.uk")),
            ("co.uk", None),
            // A wildcard rule (*.ck) and its exception (!www.ck).
            ("a.b.c.ck", Some("b.c.ck")),
            ("c.ck", None),
            ("a.www.ck", Some("www.ck")),
            // A name in another script, as it is on the wire.
            ("a.example.xn--p1ai", Some("example.xn--p1ai")),
            ("printer.lan.unlisted-tld", Some("lan.unlisted-tld")),
            (r"a.b\.c\000.com", Some(r"b\046c\000.com")),
        ] {
            assert_eq!(domain(&List::BuiltIn, name).as_deref(), want, "{name}");
        }
    }

    #[test]
    fn another_list_comes_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.dat");
        let options = RegisteredDomainOptions { list: path.clone() };
        assert!(Factory::new(&options).is_err(), "no file");
        std::fs::write(&path, "// no rule\n").unwrap();
        assert!(Factory::new(&options).is_err(), "no rule");
        let rules =
            "// ===BEGIN ICANN DOMAINS===\ntest\nlab.test\nрф\n// ===END ICANN DOMAINS===\n";
        std::fs::write(&path, rules).unwrap();
        let list = Factory::new(&options).unwrap().0;
        assert_eq!(domain(&list, "a.b.lab.test"), Some("b.lab.test".to_owned()));
        assert_eq!(domain(&list, "lab.test"), None);
        assert_eq!(domain(&list, "a.b.xn--p1ai"), Some("b.xn--p1ai".to_owned()));
    }

    #[test]
    fn the_tag_is_written_into_extra() {
        let head = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let dns = [&head[..], b"\x03WWW\x07example\x03com\0\0\x01\0\x01"].concat();
        let factory = Factory::new(&RegisteredDomainOptions::default()).unwrap();
        let mut view = view(&dns, &dns);
        view.extra = Some(b"x registered_domain=old");
        let got = through(&factory, &payload(&view), SystemTime::UNIX_EPOCH).unwrap();
        view.extra = Some(b"x registered_domain=example.com");
        assert_eq!(DnstapView::parse(&got), Ok(view));
    }
}
