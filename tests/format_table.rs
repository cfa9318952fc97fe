//! CSV and TSV: what a reader of such files gets back, from captures and from octets of every kind.

mod dnstap_support;
mod format_support;

use dnstap_support::{files, payloads};
use format_support::captures;
use proptest::prelude::*;
use prost::Message as _;
use tapflow::dns::NameBuf;
use tapflow::dnstap::{DnstapView, pb};
use tapflow::fields::{Field, Subject, specs};
use tapflow::format::{Entry, Format, Settings, Source, fuzz_payload};

fn settings(fields: &[&str]) -> Settings {
    Settings {
        fields: fields.iter().map(|name| (*name).to_owned()).collect(),
        ..Settings::default()
    }
}

/// The file that a format makes of payloads, and what the fields of each record are.
fn file(format: &str, fields: &[&str], payloads: &[Vec<u8>]) -> (Vec<u8>, Vec<Vec<String>>) {
    let format: Format = format.parse().unwrap();
    let mut line = format.line(&settings(fields)).unwrap().unwrap();
    let mut out = Vec::new();
    line.begin(&mut out);
    let mut values = Vec::new();
    for payload in payloads {
        let view = DnstapView::parse(payload).map_err(Into::into);
        let entry = Entry {
            payload,
            view: view.as_ref().map_err(|error| *error),
            source: Source::default(),
        };
        if line.write(&mut out, entry).is_err() {
            continue;
        }
        let mut subject = Subject::new(view.as_ref().unwrap());
        let text = |name: &&str| {
            let mut out = Vec::new();
            if let Some(value) = Field::find(name).unwrap().of(&mut subject) {
                value.write(&mut out);
            }
            String::from_utf8(out).unwrap()
        };
        values.push(fields.iter().map(text).collect());
    }
    (out, values)
}

/// The rows of a CSV file as another program's reader has them, the names of the columns first.
fn rows(file: &[u8]) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(file);
    let rows = reader.records().map(|row| row.expect("CSV in UTF-8"));
    rows.map(|row| row.iter().map(str::to_owned).collect())
        .collect()
}

fn assert_reads_back(payloads: &[Vec<u8>], what: &str) -> usize {
    let fields: Vec<&str> = specs().iter().map(|spec| spec.name).collect();
    let (out, values) = file("csv", &fields, payloads);
    let rows = rows(&out);
    assert_eq!(rows[0], fields, "{what}");
    assert_eq!(rows[1..], values, "{what}");
    let lines = out.split(|octet| *octet == b'\n').count() - 1;
    assert_eq!(lines, rows.len(), "{what}: one record a line");
    let (out, _) = file("tsv", &fields, payloads);
    let text = String::from_utf8(out).unwrap();
    let split: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(split[1..], values, "{what}");
    values.len()
}

#[test]
fn a_reader_of_csv_gets_the_fields_of_every_record_of_the_captures_and_the_corpus() {
    let mut records = 0;
    let made = [
        files("corpus/payload-fstrm", "fstrm"),
        files("corpus/dns-fstrm", "fstrm"),
    ];
    for path in made.concat() {
        records += assert_reads_back(&payloads(&path), &path.display().to_string());
    }
    assert!(records > 100, "{records} records");
    for path in captures() {
        // The first of each: a debug build is slow.
        let mut some = payloads(&path);
        some.truncate(100);
        records += assert_reads_back(&some, &path.display().to_string());
    }
    assert!(records > 1000, "{records} records");
}

#[test]
fn without_a_choice_the_columns_are_the_documented_ones() {
    let payloads = payloads(&files("captures", "fstrm")[0]);
    let (out, _) = file("csv", &[], &payloads[..1]);
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.starts_with("timestamp,identity,type,protocol,query_address,"),
        "{text}"
    );
    assert_eq!(rows(text.as_bytes())[0], tapflow::format::table::DEFAULT);
}

/// A query with this identity, extra and a question with one label.
fn query(identity: &[u8], extra: Option<&[u8]>, label: &[u8]) -> Vec<u8> {
    let mut dns = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, label.len() as u8];
    dns.extend(label);
    dns.extend([0, 0, 1, 0, 1]);
    let dnstap = pb::Dnstap {
        identity: Some(identity.to_vec()),
        extra: extra.map(<[u8]>::to_vec),
        r#type: Some(1),
        message: Some(pb::Message {
            r#type: Some(5),
            query_message: Some(dns),
            ..pb::Message::default()
        }),
        ..pb::Dnstap::default()
    };
    dnstap.encode_to_vec()
}

#[test]
fn values_are_quoted_where_a_comma_or_a_quotation_mark_asks_for_it() {
    let fields = ["identity", "extra", "qname", "tag.a,b"];
    let payload = query(b"a,\"b\"\n", Some(b"a,b=c"), b"x y");
    let (out, _) = file("csv", &fields, std::slice::from_ref(&payload));
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "identity,extra,qname,\"tag.a,b\"\n\"a,\"\"b\"\"\\010\",\"a,b=c\",x\\032y.,c\n"
    );
    let (out, _) = file("tsv", &fields, &[payload, query(b"\t", None, b"\t")]);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "identity\textra\tqname\ttag.a,b\na,\"b\"\\010\ta,b=c\tx\\032y.\tc\n\\009\t\t\\009.\t\n"
    );
}

#[test]
fn what_is_absent_is_empty_and_an_only_column_is_never_an_empty_line() {
    let payload = query(b"", None, b"x");
    let (out, _) = file(
        "csv",
        &["extra", "identity", "rcode"],
        std::slice::from_ref(&payload),
    );
    assert_eq!(out, b"extra,identity,rcode\n,\"\",\n");
    for format in ["csv", "tsv"] {
        let (out, _) = file(format, &["rcode"], &[payload.clone(), payload.clone()]);
        assert_eq!(out.iter().filter(|octet| **octet == b'\n').count(), 3);
    }
    let (out, _) = file("csv", &["rcode"], &[payload]);
    assert_eq!(out, b"rcode\n\"\"\n");
}

#[test]
fn a_frame_that_is_no_record_leaves_nothing() {
    let broken: [&[u8]; 3] = [b"", b"\xff", b"\x78\x01"];
    let broken = broken.map(<[u8]>::to_vec);
    for format in ["csv", "tsv"] {
        let (out, values) = file(format, &["qname"], &broken);
        assert_eq!((out.as_slice(), values.len()), (&b"qname\n"[..], 0));
    }
}

/// Undoes `\\` and `\ddd`.
fn octets(text: &str) -> Vec<u8> {
    let (mut octets, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        (rest, _) = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => (tail, octets.push(b'\\')),
            (b'\\', [a, b, c, tail @ ..]) => {
                let digits = String::from_utf8(vec![*a, *b, *c]).unwrap();
                (tail, octets.push(digits.parse().unwrap()))
            }
            _ => (tail, octets.push(*first)),
        };
    }
    octets
}

proptest! {
    #[test]
    fn csv_gives_back_the_octets_of_names_and_texts(
        identity: Vec<u8>,
        extra: Option<Vec<u8>>,
        label in prop::collection::vec(any::<u8>(), 1..63),
    ) {
        let payload = query(&identity, extra.as_deref(), &label);
        fuzz_payload(&payload);
        let (out, _) = file("csv", &["identity", "extra", "qname"], &[payload]);
        let rows = rows(&out);
        prop_assert_eq!(rows.len(), 2);
        prop_assert_eq!(octets(&rows[1][0]), identity);
        prop_assert_eq!(octets(&rows[1][1]), extra.unwrap_or_default());
        let mut wire = vec![label.len() as u8];
        wire.extend(&label);
        wire.push(0);
        let name = NameBuf::parse(&rows[1][2]).unwrap();
        prop_assert_eq!(name.as_wire(), wire);
    }
}
