//! Every format on payloads of any kind: captured ones as they are and changed in any way, those of the corpus, and
//! octets of no kind. What comes out parses and gives back the names and octets.

mod dnstap_support;

use dnstap_support::{captured, files, payloads};
use proptest::prelude::*;
use proptest::sample::Index;
use tapflow::dns::{DnsView, NameBuf};
use tapflow::dnstap::DnstapView;
use tapflow::format::{Entry, Format, Kind, Settings, Source, fuzz_payload};
use yaml_rust2::parser::{Event, EventReceiver, Parser};

/// The formats whose records are YAML documents.
fn yaml_kinds() -> impl Iterator<Item = &'static Kind> {
    Format::kinds().filter(|kind| kind.extension == "yaml")
}

/// A YAML node. Scalars stay text, which plain `12` is as well; a mapping may have a key twice, as dnstap-read gives it
/// to options that a message has twice.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Scalar(String),
    List(Vec<Self>),
    Map(Vec<(Self, Self)>),
}

impl Node {
    fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(pairs) = self else { return None };
        let is_it = |(name, _): &&(Self, Self)| name.text() == Some(key);
        pairs.iter().find(is_it).map(|(_, value)| value)
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Scalar(text) => Some(text),
            _ => None,
        }
    }

    fn first(&self) -> Option<&Self> {
        match self {
            Self::List(list) => list.first(),
            _ => None,
        }
    }
}

/// Builds the documents of a stream.
#[derive(Default)]
struct Builder {
    /// Lists and maps that are not at their end, and whether each is a map.
    open: Vec<(bool, Vec<Node>)>,
    documents: Vec<Node>,
}

impl Builder {
    fn put(&mut self, node: Node) {
        match self.open.last_mut() {
            Some((_, members)) => members.push(node),
            None => self.documents.push(node),
        }
    }
}

impl EventReceiver for Builder {
    fn on_event(&mut self, event: Event) {
        match event {
            Event::Scalar(text, ..) => self.put(Node::Scalar(text)),
            Event::SequenceStart(..) => self.open.push((false, Vec::new())),
            Event::MappingStart(..) => self.open.push((true, Vec::new())),
            Event::SequenceEnd | Event::MappingEnd => {
                let (is_map, members) = self.open.pop().unwrap();
                self.put(if is_map {
                    let (pairs, rest) = members.as_chunks::<2>();
                    assert!(rest.is_empty());
                    Node::Map(
                        pairs
                            .iter()
                            .cloned()
                            .map(|[key, value]| (key, value))
                            .collect(),
                    )
                } else {
                    Node::List(members)
                });
            }
            Event::Alias(_) => panic!("no program writes references"),
            _ => {}
        }
    }
}

/// The document that a format makes of a payload, read by a YAML parser; `None`: it is no record.
fn document(kind: &'static Kind, payload: &[u8]) -> Option<Node> {
    let view = DnstapView::parse(payload).ok()?;
    view.classify().ok()?;
    let entry = Entry {
        payload,
        view: Ok(&view),
        source: Source::default(),
    };
    let mut line = (kind.make)(&Settings::default()).unwrap();
    let mut out = Vec::new();
    line.begin(&mut out);
    line.write(&mut out, entry).unwrap();
    let text = String::from_utf8(out).unwrap();
    // What separates documents stands at the end in two of them.
    let text = text.strip_suffix("---\n").unwrap_or(&text);
    let mut found = Builder::default();
    Parser::new_from_str(text)
        .load(&mut found, true)
        .unwrap_or_else(|error| panic!("{}: {error}\n{text}", kind.name));
    assert_eq!(
        found.documents.len(),
        1,
        "{}: one document\n{text}",
        kind.name
    );
    found.documents.pop()
}

/// Holds a document to its payload.
fn check(kind: &'static Kind, payload: &[u8]) {
    let Some(yaml) = document(kind, payload) else {
        return;
    };
    let view = DnstapView::parse(payload).unwrap();
    let message = view.classify().unwrap();
    let text = |node: Option<&Node>| node.and_then(Node::text).map(str::to_owned);
    assert_eq!(text(yaml.get("type")).as_deref(), Some("MESSAGE"));
    let name = kind.name;
    for (key, octets) in [("identity", view.identity), ("version", view.version)] {
        let Some(octets) = octets else {
            assert_eq!(yaml.get(key), None, "{name}: {key} was not sent");
            continue;
        };
        // golang-dnstap quotes characters, the others octets; of what is not UTF-8 its text does not tell the two apart.
        let wanted = match std::str::from_utf8(octets) {
            Ok(text) if name == "golang-yaml" => text.to_owned(),
            Err(_) if name == "golang-yaml" => continue,
            _ => octets.iter().copied().map(char::from).collect(),
        };
        // An empty plain scalar is what YAML has for nothing, which a reader may show as a tilde.
        let found = text(yaml.get(key)).filter(|text| text != "~");
        assert_eq!(found.unwrap_or_default(), wanted, "{name}: {key}");
    }
    let inner = yaml.get("message").expect("a message");
    assert!(text(inner.get("type")).is_some());
    for (key, port) in [
        ("query_port", message.query_port),
        ("response_port", message.response_port),
    ] {
        // The programs cut to 16 bits, leave zeros out, or do neither.
        if let Some(port) = port.filter(|port| (1..65_536).contains(port)) {
            assert_eq!(
                text(inner.get(key)),
                Some(port.to_string()),
                "{name}: {key}"
            );
        }
    }
    let Some((octets, is_response)) = message.dns() else {
        return;
    };
    let Ok(view) = DnsView::parse(octets) else {
        return;
    };
    let Ok(Some(question)) = view.question() else {
        return;
    };
    let wanted = question.name.to_buf();
    let key = if is_response {
        "response_message"
    } else {
        "query_message"
    };
    let found = match name {
        "dnstap-read-yaml" => {
            let data = inner.get(&format!("{key}_data"));
            let section = data.and_then(|data| {
                let question = data.get("QUESTION_SECTION");
                question.or_else(|| data.get("ZONE_SECTION"))
            });
            text(section.and_then(Node::first))
        }
        _ => text(inner.get(key)).and_then(|text| {
            let is_title =
                |line: &&str| line.starts_with(";; QUESTION") || line.starts_with(";; ZONE");
            let mut lines = text.lines().skip_while(|line| !is_title(line));
            lines.next()?;
            Some(lines.next()?.trim_start_matches([';', ' ']).to_owned())
        }),
    };
    let Some(found) = found else {
        return; // Not decoded by these programs; a comment says so.
    };
    let separator = if name == "dnstap-read-yaml" {
        ' '
    } else {
        '\t'
    };
    let end = found.find(separator).expect("a class follows");
    let back = NameBuf::parse_octets(&found.as_bytes()[..end]);
    assert_eq!(back.as_ref(), Ok(&wanted), "{name}: {found}");
}

/// Every payload of the captures, some of each kind, and all of the corpus.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> = captured().into_iter().step_by(97).collect();
    for folder in ["corpus/dns-fstrm", "corpus/payload-fstrm"] {
        for file in files(folder, "fstrm") {
            seeds.extend(payloads(&file));
        }
    }
    seeds
}

#[test]
fn documents_of_captures_and_corpus_are_read_by_a_yaml_parser_and_give_back_their_names() {
    let mut payloads: Vec<_> = captured().into_iter().step_by(7).collect();
    payloads.extend(seeds());
    for kind in yaml_kinds() {
        for payload in &payloads {
            check(kind, payload);
        }
    }
    assert!(payloads.len() > 5000 && yaml_kinds().count() == 3);
}

/// A change of a payload.
#[derive(Clone, Debug)]
enum Change {
    Put(Index, u8),
    Cut(Index),
    Insert(Index, Vec<u8>),
    Remove(Index, u8),
    /// Octets of the payload again at another place: lengths and pointers that lead elsewhere.
    Copy(Index, Index, u8),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        8 => (any::<Index>(), any::<u8>()).prop_map(|(at, octet)| Change::Put(at, octet)),
        1 => any::<Index>().prop_map(Change::Cut),
        2 => (any::<Index>(), proptest::collection::vec(any::<u8>(), 1..9))
            .prop_map(|(at, octets)| Change::Insert(at, octets)),
        2 => (any::<Index>(), any::<u8>()).prop_map(|(at, len)| Change::Remove(at, len)),
        2 => (any::<Index>(), any::<Index>(), 1..40u8)
            .prop_map(|(from, to, len)| Change::Copy(from, to, len)),
    ]
}

fn changed(mut octets: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        if octets.is_empty() {
            break;
        }
        let len = octets.len();
        match change {
            Change::Put(at, octet) => octets[at.index(len)] = *octet,
            Change::Cut(at) => octets.truncate(at.index(len)),
            Change::Insert(at, more) => {
                let at = at.index(len);
                octets.splice(at..at, more.iter().copied());
            }
            Change::Remove(at, count) => {
                let at = at.index(len);
                octets.drain(at..len.min(at + usize::from(*count)));
            }
            Change::Copy(from, to, count) => {
                let from = from.index(len);
                let part = octets[from..len.min(from + usize::from(*count))].to_vec();
                for (slot, octet) in octets.iter_mut().skip(to.index(len)).zip(part) {
                    *slot = octet;
                }
            }
        }
    }
    octets
}

/// The payload with these changes in its DNS message alone, so that they do not all end in the envelope.
fn with_message(payload: &[u8], change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    use prost::Message as _;
    let Ok(mut dnstap) = tapflow::dnstap::pb::Dnstap::decode(payload) else {
        return payload.to_vec();
    };
    if let Some(message) = &mut dnstap.message {
        let octets = message
            .response_message
            .as_mut()
            .or(message.query_message.as_mut());
        if let Some(octets) = octets {
            *octets = change(std::mem::take(octets));
        }
    }
    dnstap.encode_to_vec()
}

/// Everything that is checked of a payload.
fn check_all(payload: &[u8]) {
    fuzz_payload(payload);
    for kind in yaml_kinds() {
        check(kind, payload);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_payloads_give_whole_records_in_every_format(
        which in any::<Index>(),
        changes in proptest::collection::vec(change(), 1..12),
    ) {
        let seeds = SEEDS.with(Clone::clone);
        check_all(&changed(seeds[which.index(seeds.len())].clone(), &changes));
    }

    #[test]
    fn changed_messages_give_whole_records_in_every_format(
        which in any::<Index>(),
        changes in proptest::collection::vec(change(), 1..12),
    ) {
        let seeds = SEEDS.with(Clone::clone);
        let payload = &seeds[which.index(seeds.len())];
        check_all(&with_message(payload, |octets| changed(octets, &changes)));
    }

    #[test]
    fn names_and_texts_of_any_octets_give_whole_records_in_every_format(
        identity in proptest::collection::vec(any::<u8>(), 0..20),
        labels in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..12), 0..6),
        rtype in prop_oneof![0u16..270, any::<u16>()],
        data in proptest::collection::vec(any::<u8>(), 0..60),
        options in proptest::collection::vec((0u16..22, proptest::collection::vec(any::<u8>(), 0..24)), 0..4),
        kind in 0i32..17,
        opcode in 0u8..16,
    ) {
        use prost::Message as _;
        let mut name: Vec<u8> = labels.iter().flat_map(|label| [&[label.len() as u8], &label[..]].concat()).collect();
        name.push(0);
        let mut dns = vec![0, 7, opcode << 3, 0, 0, 1, 0, 1, 0, 0, 0, 1];
        dns.extend_from_slice(&name);
        dns.extend([0, 1, 0, 1, 0xc0, 12]);
        dns.extend(rtype.to_be_bytes());
        dns.extend([0, 1, 0, 0, 0, 5]);
        dns.extend((data.len() as u16).to_be_bytes());
        dns.extend(&data);
        let options: Vec<u8> = options
            .iter()
            .flat_map(|(code, data)| [&code.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat())
            .collect();
        dns.extend([0, 0, 41, 4, 208, 0, 0, 128, 0]);
        dns.extend((options.len() as u16).to_be_bytes());
        dns.extend(options);
        let dnstap = tapflow::dnstap::pb::Dnstap {
            identity: Some(identity.clone()),
            version: Some(identity),
            r#type: Some(1),
            message: Some(tapflow::dnstap::pb::Message {
                r#type: Some(kind),
                query_zone: Some(name),
                query_message: Some(dns.clone()),
                response_message: Some(dns),
                ..Default::default()
            }),
            ..Default::default()
        };
        check_all(&dnstap.encode_to_vec());
    }
}

thread_local! {
    /// Read once a thread.
    static SEEDS: std::rc::Rc<Vec<Vec<u8>>> = std::rc::Rc::new(seeds());
}
