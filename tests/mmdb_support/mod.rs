//! Writes small MaxMind DB files (format 2.0, IPv4, records of 24 bits), so that tests need no one's data.

/// A value of an entry.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Number(u32),
    Map(Vec<(String, Self)>),
}

impl Value {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub(crate) fn map<const N: usize>(entries: [(&str, Self); N]) -> Self {
        Self::Map(entries.map(|(key, value)| (key.to_owned(), value)).into())
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => {
                control(out, 2, text.len());
                out.extend(text.as_bytes());
            }
            Self::Number(number) => {
                control(out, 6, 4);
                out.extend(number.to_be_bytes());
            }
            Self::Map(entries) => {
                control(out, 7, entries.len());
                for (key, value) in entries {
                    Self::text(key).write(out);
                    value.write(out);
                }
            }
        }
    }
}

fn control(out: &mut Vec<u8>, kind: u8, len: usize) {
    match u8::try_from(len) {
        Ok(len @ 0..29) => out.push(kind << 5 | len),
        _ => out.extend([
            kind << 5 | 29,
            u8::try_from(len - 29).expect("short values"),
        ]),
    }
}

fn pair(out: &mut Vec<u8>, key: &str, kind: u8, value: &[u8]) {
    Value::text(key).write(out);
    match kind {
        0..8 => control(out, kind, value.len()),
        _ => out.extend([value.len() as u8, kind - 7]),
    }
    out.extend(value);
}

#[derive(Clone, Copy)]
enum Slot {
    Empty,
    Node(usize),
    Data(usize),
}

/// A file with these networks (which do not overlap) and what is known of each.
pub(crate) fn mmdb(networks: &[([u8; 4], u32, Value)]) -> Vec<u8> {
    let (mut nodes, mut data) = (vec![[Slot::Empty; 2]], Vec::new());
    for (network, len, value) in networks {
        let (bits, offset) = (u32::from_be_bytes(*network), data.len());
        value.write(&mut data);
        let mut node = 0;
        for bit in 0..*len {
            let side = (bits >> (31 - bit) & 1) as usize;
            if bit + 1 == *len {
                nodes[node][side] = Slot::Data(offset);
            } else if let Slot::Node(next) = nodes[node][side] {
                node = next;
            } else {
                nodes.push([Slot::Empty; 2]);
                nodes[node][side] = Slot::Node(nodes.len() - 1);
                node = nodes.len() - 1;
            }
        }
    }
    let mut out = Vec::new();
    for slot in nodes.iter().flatten() {
        let number = match slot {
            Slot::Empty => nodes.len(),
            Slot::Node(node) => *node,
            Slot::Data(offset) => nodes.len() + 16 + offset,
        };
        out.extend(&(number as u32).to_be_bytes()[1..]);
    }
    out.extend([0; 16]);
    out.extend(data);
    out.extend(b"\xab\xcd\xefMaxMind.com");
    control(&mut out, 7, 9);
    pair(&mut out, "binary_format_major_version", 5, &[0, 2]);
    pair(&mut out, "binary_format_minor_version", 5, &[0, 0]);
    pair(&mut out, "build_epoch", 9, &[0, 0, 0, 0, 0x65, 0, 0, 0]);
    pair(&mut out, "database_type", 2, b"Test");
    pair(&mut out, "description", 7, b"");
    pair(&mut out, "ip_version", 5, &[0, 4]);
    pair(&mut out, "languages", 11, b"");
    pair(
        &mut out,
        "node_count",
        6,
        &(nodes.len() as u32).to_be_bytes(),
    );
    pair(&mut out, "record_size", 5, &[0, 24]);
    out
}
