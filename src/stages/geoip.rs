//! The geoip stage: country and autonomous system of the client, from MaxMind DB files, as tags.
//!
//! The client is dnstap's query address. Files that change are loaded again by a thread of its own; a new one that cannot be
//! used leaves the old one in use.

use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::Deserialize;

use crate::dnstap::edit::{Edit, Settable};
use crate::dnstap::tags::TagWriter;
use crate::pipeline::batch::Origin;
use crate::pipeline::stage::{Record, Stage, StageFactory, Verdict};
use crate::stages::StageError;
use crate::stages::reload::{Checker, Reader, Watched};
use crate::stages::rewrite::{Replacement, parts};
use crate::stages::transform_options::{GeoTag, GeoipOptions};

type Database = maxminddb::Reader<Vec<u8>>;

/// Makes geoip stages.
#[derive(Debug)]
pub struct Factory {
    databases: Watched<Vec<Database>>,
    tags: Vec<GeoTag>,
}

impl Factory {
    /// Reads the files.
    ///
    /// # Errors
    /// No file, no tag, or a file that is not there or no MaxMind DB.
    pub fn new(options: &GeoipOptions) -> Result<Self, StageError> {
        if options.files.is_empty() || options.tags.is_empty() {
            return Err(StageError::Settings("`files` and `tags` must not be empty"));
        }
        Ok(Self {
            databases: Watched::start(checker(options.files.clone())?, options.reload.get()),
            tags: options.tags.clone(),
        })
    }
}

fn checker(files: Vec<PathBuf>) -> Result<Checker<Vec<Database>>, StageError> {
    Checker::new(files.clone(), move || {
        let open = |path: &PathBuf| {
            Database::open_readfile(path).map_err(|error| StageError::File {
                path: path.clone(),
                why: format!("no MaxMind DB: {error}"),
            })
        };
        files.iter().map(open).collect()
    })
}

impl StageFactory for Factory {
    fn build(&self, _origin: &Origin) -> Box<dyn Stage> {
        Box::new(Geoip {
            databases: self.databases.reader(),
            tags: self.tags.clone(),
            number: Vec::new(),
            writer: TagWriter::default(),
            out: Replacement::default(),
        })
    }

    fn replaces(&self) -> bool {
        true
    }
}

/// What is wanted of a database's entry.
#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    country: Option<Country<'a>>,
    autonomous_system_number: Option<u32>,
    autonomous_system_organization: Option<&'a str>,
}

#[derive(Deserialize)]
struct Country<'a> {
    iso_code: Option<&'a str>,
}

#[derive(Default)]
struct Found<'a> {
    country: Option<&'a str>,
    asn: Option<u32>,
    as_org: Option<&'a str>,
}

/// What the databases say of an address, each thing from the first that knows it.
fn look_up(databases: &[Database], client: IpAddr) -> Found<'_> {
    let mut found = Found::default();
    for database in databases {
        if client.is_ipv6() && database.metadata().ip_version == 4 {
            continue;
        }
        let entry = database
            .lookup(client)
            .and_then(|found| found.decode::<Entry<'_>>());
        // An entry of another shape says nothing of these things.
        let Ok(Some(entry)) = entry else { continue };
        let country = entry.country.and_then(|country| country.iso_code);
        found.country = found.country.or(country);
        found.asn = found.asn.or(entry.autonomous_system_number);
        found.as_org = found.as_org.or(entry.autonomous_system_organization);
    }
    found
}

struct Geoip {
    databases: Reader<Vec<Database>>,
    tags: Vec<GeoTag>,
    number: Vec<u8>,
    writer: TagWriter,
    out: Replacement,
}

impl Stage for Geoip {
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
        let Some((view, message)) = parts(record) else {
            return Verdict::Keep;
        };
        let Some(client) = message.client_ip() else {
            return Verdict::Keep;
        };
        let Self {
            databases,
            tags,
            number,
            writer,
            out,
        } = self;
        let found = look_up(databases.get().0, client.to_canonical());
        writer.begin(view.extra, |old| {
            tags.iter().any(|tag| tag.name().as_bytes() == old)
        });
        let mut any = false;
        for tag in tags {
            number.clear();
            let value = match tag {
                GeoTag::Country => found.country.map(str::as_bytes),
                GeoTag::AsOrg => found.as_org.map(str::as_bytes),
                GeoTag::Asn => found.asn.and_then(|asn| {
                    write!(number, "{asn}").ok()?;
                    Some(number.as_slice())
                }),
            };
            if let Some(value) = value {
                writer.push(tag.name().as_bytes(), value);
                any = true;
            }
        }
        let mut edit = Edit::default();
        if any {
            edit.set(Settable::Extra, writer.as_bytes());
        }
        out.make(record, &edit)
    }

    fn replacement(&self) -> &[u8] {
        self.out.as_bytes()
    }
}

#[cfg(test)]
#[path = "../../tests/mmdb_support/mod.rs"]
mod mmdb_support;

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::mmdb_support::{Value, mmdb};
    use super::*;
    use crate::dnstap::DnstapView;
    use crate::stages::reload::Checked;
    use crate::stages::rewrite::tests::{payload, through, view};
    use crate::units::Span;

    fn country(code: &str) -> Value {
        Value::map([("country", Value::map([("iso_code", Value::text(code))]))])
    }

    fn system(number: u32, name: &str) -> Value {
        Value::map([
            ("autonomous_system_number", Value::Number(number)),
            ("autonomous_system_organization", Value::text(name)),
        ])
    }

    #[test]
    fn the_client_s_country_and_system_become_tags() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["country.mmdb", "asn.mmdb"].map(|name| folder.path().join(name));
        std::fs::write(&files[0], mmdb(&[([192, 0, 2, 0], 25, country("NL"))])).unwrap();
        let systems = [
            ([192, 0, 2, 0], 24, system(64_500, "Some Org, 100%")),
            ([198, 51, 100, 0], 24, Value::text("another shape")),
        ];
        std::fs::write(&files[1], mmdb(&systems)).unwrap();
        let options = GeoipOptions {
            files: files.to_vec(),
            reload: Span::OFF,
            ..GeoipOptions::default()
        };
        let factory = Factory::new(&options).unwrap();
        let extra = |address: &[u8]| {
            let mut view = view(b"q", b"r");
            view.extra = Some(b"x asn=1");
            view.message.as_mut().unwrap().query_address = Some(address);
            let got = through(&factory, &payload(&view), SystemTime::UNIX_EPOCH)?;
            let extra = DnstapView::parse(&got).unwrap().extra.unwrap();
            Some(String::from_utf8(extra.to_vec()).unwrap())
        };
        let full = "x country=NL asn=64500 as_org=Some%20Org,%20100%25";
        assert_eq!(extra(&[192, 0, 2, 77]).as_deref(), Some(full));
        let mapped = [&[0; 10][..], &[255, 255, 192, 0, 2, 77]].concat();
        assert_eq!(extra(&mapped).as_deref(), Some(full));
        let half = "x asn=64500 as_org=Some%20Org,%20100%25";
        assert_eq!(extra(&[192, 0, 2, 200]).as_deref(), Some(half));
        // An entry of another shape costs an allocation, so it is looked up by itself.
        let databases = files.map(|path| Database::open_readfile(path).unwrap());
        let odd = look_up(&databases, IpAddr::from([198, 51, 100, 1]));
        assert!(odd.country.is_none() && odd.asn.is_none() && odd.as_org.is_none());
        assert_eq!(extra(&[203, 0, 113, 1]), None);
        assert_eq!(extra(&[0x20; 16]), None);
        assert_eq!(extra(b""), None);
    }

    #[test]
    fn a_new_file_is_taken_and_a_broken_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("country.mmdb");
        assert!(checker(vec![path.clone()]).is_err(), "no file");
        std::fs::write(&path, b"not a database").unwrap();
        let error = checker(vec![path.clone()]).err().unwrap().to_string();
        assert!(error.contains("country.mmdb: no MaxMind DB"), "{error}");
        let write = |code| {
            let bytes = mmdb(&[([192, 0, 2, 0], 24, country(code))]);
            std::fs::write(&path, &bytes).unwrap();
            bytes
        };
        let whole = write("NL");
        let mut checker = checker(vec![path.clone()]).unwrap();
        let mut reader = checker.reader();
        let client = IpAddr::from([192, 0, 2, 1]);
        assert_eq!(look_up(reader.get().0, client).country, Some("NL"));
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(checker.check(), Checked::Kept);
        assert_eq!(look_up(reader.get().0, client).country, Some("NL"));
        write("DE");
        assert_eq!(checker.check(), Checked::Reloaded);
        assert_eq!(look_up(reader.get().0, client).country, Some("DE"));
    }
}
