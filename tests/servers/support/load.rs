//! Mixed DNS queries, and the answers counted: UDP and TCP, IPv4 and IPv6, many types, names that need escapes, names that do
//! not exist, answers that do not fit, EDNS with options known and unknown.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How fast is asked: as fast as answers come, with so many queries under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Clients that ask at once.
    pub(crate) clients: u64,
    /// Queries that each of them has under way.
    pub(crate) window: usize,
}

/// Where to ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) port: u16,
    pub(crate) v6: bool,
}

impl Target {
    fn host(self, v6: bool) -> &'static str {
        if v6 && self.v6 { "::1" } else { "127.0.0.1" }
    }

    /// Whether the server takes TCP connections.
    pub(crate) fn listens(self) -> bool {
        TcpStream::connect((self.host(false), self.port)).is_ok()
            && (!self.v6 || TcpStream::connect((self.host(true), self.port)).is_ok())
    }
}

/// What became of a load.
#[derive(Default, Clone, Debug)]
pub(crate) struct Asked {
    /// Queries sent.
    pub(crate) queries: u64,
    /// Answers that came.
    pub(crate) answers: u64,
    /// Answers by protocol and family, such as `udp4`.
    pub(crate) by_way: BTreeMap<&'static str, u64>,
    /// Answers by the RCODE of the header.
    pub(crate) by_rcode: BTreeMap<u8, u64>,
    /// Answers cut short, each asked again over TCP.
    pub(crate) truncated: u64,
    /// Queries that nobody answered, as text.
    pub(crate) unanswered: Vec<String>,
}

impl Asked {
    /// Adds another load to this one.
    pub(crate) fn add(&mut self, other: Self) {
        self.queries += other.queries;
        self.answers += other.answers;
        self.truncated += other.truncated;
        self.unanswered.extend(other.unanswered);
        other
            .by_way
            .into_iter()
            .for_each(|(k, n)| *self.by_way.entry(k).or_default() += n);
        other
            .by_rcode
            .into_iter()
            .for_each(|(k, n)| *self.by_rcode.entry(k).or_default() += n);
    }
}

/// Asks `count` queries (and those that truncated answers make necessary) and waits for the answers, up to `patience` each.
pub(crate) fn ask(target: Target, pace: Pace, count: u64, seed: u64, patience: Duration) -> Asked {
    let clients: Vec<_> = (0..pace.clients)
        .map(|n| {
            std::thread::spawn(move || {
                let mut client = Client {
                    target,
                    pace,
                    random: Random::new(seed * pace.clients + n),
                    patience,
                    asked: Asked::default(),
                };
                client.run(count / pace.clients);
                client.asked
            })
        })
        .collect();
    let mut asked = Asked::default();
    clients
        .into_iter()
        .for_each(|c| asked.add(c.join().expect("client")));
    asked
}

/// A load that goes on until it is dropped, whether or not anybody answers.
pub(crate) struct Background {
    answers: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts it.
    pub(crate) fn start(target: Target, pace: Pace, seed: u64) -> Self {
        let (answers, stop) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let thread = std::thread::spawn({
            let (answers, stop) = (answers.clone(), stop.clone());
            move || {
                for round in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let asked = ask(
                        target,
                        pace,
                        pace.clients * 16,
                        seed + round,
                        Duration::from_millis(100),
                    );
                    answers.fetch_add(asked.answers, Ordering::Relaxed);
                }
            }
        });
        Self {
            answers,
            stop,
            thread: Some(thread),
        }
    }

    /// Answers that came so far.
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A small generator of numbers, the same for the same seed (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % n
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A query, its id still zero.
struct Query {
    wire: Vec<u8>,
    text: String,
}

struct Client {
    target: Target,
    pace: Pace,
    random: Random,
    patience: Duration,
    asked: Asked,
}

impl Client {
    fn run(&mut self, count: u64) {
        let (mut left, mut truncated) = (count as usize, Vec::new());
        while left > 0 || !truncated.is_empty() {
            let v6 = self.random.below(2) == 1;
            if left == 0 || truncated.len() >= self.pace.window {
                let batch = truncated.split_off(truncated.len().saturating_sub(self.pace.window));
                self.exchange(batch, v6, true);
                continue;
            }
            let batch = left.min(self.pace.window);
            left -= batch;
            let batch = (0..batch).map(|_| query(&mut self.random)).collect();
            let tcp = self.random.below(4) == 0;
            truncated.extend(self.exchange(batch, v6, tcp));
        }
    }

    /// Asks a batch; returns those whose answers were truncated.
    fn exchange(&mut self, batch: Vec<Query>, v6: bool, tcp: bool) -> Vec<Query> {
        let way = match (tcp, v6 && self.target.v6) {
            (false, false) => "udp4",
            (false, true) => "udp6",
            (true, false) => "tcp4",
            (true, true) => "tcp6",
        };
        let first_id = self.random.below(0xff00) as u16;
        let mut open = HashMap::new();
        let mut wires = Vec::new();
        for (id, mut query) in (first_id..).zip(batch) {
            query.wire[..2].copy_from_slice(&id.to_be_bytes());
            wires.push(query.wire.clone());
            open.insert(id, query);
        }
        let (asked, mut truncated) = (&mut self.asked, Vec::new());
        let mut on_answer = |message: &[u8]| {
            if let [a, b, flags, rcode, ..] = message
                && let Some(query) = open.remove(&u16::from_be_bytes([*a, *b]))
            {
                asked.answers += 1;
                *asked.by_way.entry(way).or_default() += 1;
                *asked.by_rcode.entry(rcode & 15).or_default() += 1;
                if flags & 2 != 0 {
                    asked.truncated += 1;
                    truncated.push(query);
                }
            }
        };
        let address = (self.target.host(v6), self.target.port);
        let exchange = if tcp { over_tcp } else { over_udp };
        // A batch that ends in an error leaves queries open, which are counted as unanswered.
        let error = exchange(address, &wires, self.patience, &mut on_answer).err();
        self.asked.queries += wires.len() as u64;
        self.asked.unanswered.extend(
            open.into_values()
                .map(|q| format!("{way} {}: {error:?}", q.text)),
        );
        truncated
    }
}

/// Told each answer.
type OnAnswer<'a> = &'a mut dyn FnMut(&[u8]);

fn over_udp(
    to: (&str, u16),
    wires: &[Vec<u8>],
    patience: Duration,
    on_answer: OnAnswer<'_>,
) -> std::io::Result<()> {
    let socket = UdpSocket::bind((to.0, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(patience))?;
    for wire in wires {
        socket.send(wire)?;
    }
    let mut buf = vec![0; 65_535];
    for _ in wires {
        let n = socket.recv(&mut buf)?;
        on_answer(&buf[..n]);
    }
    Ok(())
}

fn over_tcp(
    to: (&str, u16),
    wires: &[Vec<u8>],
    patience: Duration,
    on_answer: OnAnswer<'_>,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(patience))?;
    let mut bytes = Vec::new();
    for wire in wires {
        bytes.extend_from_slice(&(wire.len() as u16).to_be_bytes());
        bytes.extend_from_slice(wire);
    }
    stream.write_all(&bytes)?;
    let mut answer = Vec::new();
    for _ in wires {
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        answer.resize(u16::from_be_bytes(len) as usize, 0);
        stream.read_exact(&mut answer)?;
        on_answer(&answer);
    }
    Ok(())
}

/// Owner names of the zone that have records, in their octets.
const NAMES: &[&[&[u8]]] = &[
    &[],
    &[b"www"],
    &[b"text"],
    &[b"empty"],
    &[b"_sip", b"_udp"],
    &[b"_443", b"_tcp", b"www"],
    &[b"number"],
    &[b"ptr"],
    &[b"odd"],
    &[b"chain1"],
    &[b"big"],
    &[b"huge"],
    &[b"local"],
];
/// Names whose octets are escaped in text.
const ODD_NAMES: &[&[&[u8]]] = &[
    &[b"we.ird"],
    &[b"sp ace"],
    &[b"back\\slash"],
    &[b"nul\0octet"],
    &[b"high\xff\xfe"],
    &[b"quote\""],
    &[b"semi;colon"],
    &[b"at@dollar$"],
    &[b"tab\tline\n"],
    &[b"m\xc3\xbcnchen"],
    &[&[b'l'; 63]],
    &[b"not\0here", b"\x01\x7f", b" "],
];
/// A, NS, CNAME, SOA, PTR, HINFO, MX, TXT, AAAA, LOC, SRV, NAPTR, DS, SSHFP, DNSKEY, TLSA, SVCB, HTTPS, ANY, URI, CAA, private.
const QTYPES: &[u16] = &[
    1, 2, 5, 6, 12, 13, 15, 16, 28, 29, 33, 35, 43, 44, 48, 52, 64, 65, 255, 256, 257, 65_280,
];
/// Options as code and data: NSID, client subnet, cookie, padding, one that nobody knows.
const OPTIONS: &[(u16, &[u8])] = &[
    (3, b""),
    (8, &[0, 1, 24, 0, 192, 0, 2]),
    (10, b"12345678"),
    (12, &[0; 40]),
    (65_001, b"unknown"),
];

/// One query of the mix.
fn query(random: &mut Random) -> Query {
    let number = random.below(1_000_000).to_string();
    let deep = [&b"deep"[..]; 1];
    let (mut labels, qtype): (Vec<&[u8]>, u16) = match random.below(20) {
        // Most names are new to every cache on the way.
        0..=7 => (vec![number.as_bytes(), b"w"], random.pick(&[1, 28, 16, 15])),
        8..=10 => (vec![b"no", number.as_bytes()], random.pick(QTYPES)),
        11..=14 => (random.pick(NAMES).to_vec(), random.pick(QTYPES)),
        15..=17 => (random.pick(ODD_NAMES).to_vec(), 1),
        18 => (deep[0].chunks(1).cycle().take(100).collect(), 1),
        _ => (vec![random.pick(&[&b"big"[..], b"huge"])], 16),
    };
    let zone: &[u8] = if random.below(10) == 0 {
        b"away"
    } else {
        b"tap"
    };
    labels.extend([zone, b"example"]);
    let recurse = u16::from(random.below(20) > 0) << 8;
    let mut wire: Vec<u8> = [0, recurse, 1, 0, 0, 0]
        .iter()
        .flat_map(|word| word.to_be_bytes())
        .collect();
    for label in &labels {
        wire.push(label.len() as u8);
        // Case is kept by senders, whatever a cache holds.
        let upper = random.below(8) == 0;
        wire.extend(
            label
                .iter()
                .map(|c| if upper { c.to_ascii_uppercase() } else { *c }),
        );
    }
    wire.push(0);
    wire.extend([qtype, 1].iter().flat_map(|word| word.to_be_bytes()));
    edns(random, &mut wire);
    let name: Vec<String> = labels
        .iter()
        .map(|l| l.escape_ascii().to_string())
        .collect();
    Query {
        wire,
        text: format!("{} type {qtype}", name.join(".")),
    }
}

/// An OPT record, in three of four queries.
fn edns(random: &mut Random, wire: &mut Vec<u8>) {
    if random.below(4) == 0 {
        return;
    }
    let mut options = Vec::new();
    while random.below(3) == 0 {
        let (code, data) = random.pick(OPTIONS);
        options.extend(
            [code, data.len() as u16]
                .iter()
                .flat_map(|word| word.to_be_bytes()),
        );
        options.extend_from_slice(data);
    }
    wire[11] = 1;
    let dnssec_ok = random.pick(&[0, 0x8000]);
    wire.push(0);
    let words = [
        41,
        random.pick(&[512, 1232, 4096]),
        0,
        dnssec_ok,
        options.len() as u16,
    ];
    wire.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    wire.extend(options);
}

#[test]
fn the_load_is_mixed_and_the_same_for_the_same_seed() {
    let wires = |seed| {
        let mut random = Random::new(seed);
        (0..2000)
            .map(|_| query(&mut random).wire)
            .collect::<Vec<_>>()
    };
    assert_eq!(wires(1), wires(1));
    assert_ne!(wires(1), wires(2));
    let wires = wires(1);
    let share = |what: &str, least: usize, has: &dyn Fn(&[u8]) -> bool| {
        let n = wires.iter().filter(|w| has(w)).count();
        assert!((least..2000).contains(&n), "{what}: {n} of 2000");
    };
    share("EDNS", 1000, &|w| w[11] == 1);
    share("no recursion wanted", 50, &|w| w[2] & 1 == 0);
    share("a NUL in the name", 5, &|w| {
        w.windows(3).any(|part| part == b"l\0o")
    });
    share("long names", 50, &|w| w.len() > 200);
    assert!(
        wires
            .iter()
            .all(|w| tapflow::dns::DnsView::parse(w).is_ok_and(|v| v.question().is_ok()))
    );
}
