//! The anonymise stage: addresses of clients (or servers) are cut to a prefix, or replaced by Crypto-PAn.
//!
//! What is no address of 4 or 16 octets becomes zeros, since it may hold one. An IPv4 address in IPv6 (`::ffff:0:0/96`) is
//! treated as the IPv4 address that it is. Addresses elsewhere are left alone: in records (A, AAAA, names of PTR), in the
//! identity, in `extra`.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::dns::edit;
use crate::dnstap::edit::{Edit, Settable};
use crate::pipeline::batch::Origin;
use crate::pipeline::stage::{Record, Stage, StageFactory, Verdict};
use crate::stages::StageError;
use crate::stages::crypto_pan::{CryptoPan, KEY_LEN};
use crate::stages::reload::{Checker, Reader, Watched};
use crate::stages::rewrite::{DnsCopies, Replacement, parts};
use crate::stages::transform_options::{AddressField, AnonymiseMode, AnonymiseOptions};

/// Makes anonymise stages.
#[derive(Debug)]
pub struct Factory {
    method: Method,
    query: bool,
    response: bool,
    client_subnet: bool,
}

#[derive(Debug)]
enum Method {
    Truncate {
        v4: u8,
        v6: u8,
    },
    CryptoPan {
        key: Watched<[u8; KEY_LEN]>,
        /// Seconds that a derived key is used.
        rotate: Option<u64>,
    },
}

impl Factory {
    /// Compiles the settings and reads the key, where one is needed.
    ///
    /// # Errors
    /// Prefixes longer than an address, or a key file that cannot be used.
    pub fn new(options: &AnonymiseOptions) -> Result<Self, StageError> {
        let method = match options.mode {
            AnonymiseMode::Truncate if options.ipv4_prefix > 32 || options.ipv6_prefix > 128 => {
                return Err(StageError::Settings("a prefix is longer than an address"));
            }
            AnonymiseMode::Truncate => Method::Truncate {
                v4: options.ipv4_prefix,
                v6: options.ipv6_prefix,
            },
            AnonymiseMode::CryptoPan => {
                let path = options.key_file.clone();
                let checker = Checker::new(vec![path.clone()], move || read_key(&path))?;
                Method::CryptoPan {
                    key: Watched::start(checker, options.reload.get()),
                    rotate: options.rotate.get().map(|span| span.as_secs().max(1)),
                }
            }
        };
        let has = |field| options.addresses.contains(&field);
        Ok(Self {
            method,
            query: has(AddressField::QueryAddress),
            response: has(AddressField::ResponseAddress),
            client_subnet: options.client_subnet,
        })
    }
}

/// Reads a key: 32 octets, or 64 hexadecimal digits with white space after them.
fn read_key(path: &Path) -> Result<[u8; KEY_LEN], StageError> {
    let fault = |why: String| StageError::File {
        path: path.to_owned(),
        why,
    };
    let octets = std::fs::read(path).map_err(|error| fault(error.to_string()))?;
    if let Ok(key) = <[u8; KEY_LEN]>::try_from(octets.as_slice()) {
        return Ok(key);
    }
    data_encoding::HEXLOWER_PERMISSIVE
        .decode(octets.trim_ascii())
        .ok()
        .and_then(|key| key.try_into().ok())
        .ok_or_else(|| {
            fault(
                "not a key, which is 32 octets or 64 hexadecimal digits (openssl rand -hex 32 makes one)"
                    .to_owned(),
            )
        })
}

impl StageFactory for Factory {
    fn build(&self, _origin: &Origin) -> Box<dyn Stage> {
        let how = match &self.method {
            Method::Truncate { v4, v6 } => How::Truncate { v4: *v4, v6: *v6 },
            Method::CryptoPan { key, rotate } => How::CryptoPan(Box::new(Keyed {
                key: key.reader(),
                rotate: *rotate,
                current: None,
            })),
        };
        Box::new(Anonymise {
            how,
            query: self.query,
            response: self.response,
            client_subnet: self.client_subnet,
            addresses: [[0; 16]; 2],
            long: [Vec::new(), Vec::new()],
            dns: DnsCopies::default(),
            out: Replacement::default(),
        })
    }

    fn replaces(&self) -> bool {
        true
    }
}

enum How {
    Truncate { v4: u8, v6: u8 },
    CryptoPan(Box<Keyed>),
}

struct Keyed {
    key: Reader<[u8; KEY_LEN]>,
    rotate: Option<u64>,
    /// The cipher in use, with the number of the key and of the period that it is for.
    current: Option<(u64, u64, CryptoPan)>,
}

impl Keyed {
    fn cipher(&mut self, received: SystemTime) -> &CryptoPan {
        let period = self.rotate.map_or(0, |rotate| {
            let since = received.duration_since(UNIX_EPOCH).unwrap_or_default();
            since.as_secs() / rotate
        });
        let (key, number) = self.key.get();
        let stale = !matches!(&self.current, Some((n, p, _)) if (*n, *p) == (number, period));
        if stale {
            self.current = None;
        }
        let current = self.current.get_or_insert_with(|| {
            let cipher = match self.rotate {
                None => CryptoPan::new(key),
                Some(_) => CryptoPan::derived(key, period),
            };
            (number, period, cipher)
        });
        &current.2
    }
}

/// How addresses change at this moment.
enum Now<'k> {
    Truncate { v4: u8, v6: u8 },
    CryptoPan(&'k CryptoPan),
}

impl Now<'_> {
    /// Changes the first `bits` bits of an address of 4 or 16 octets; the others, and whatever is no address, become zero.
    fn change(&self, address: &mut [u8], bits: u8) {
        if let Ok(octets) = <[u8; 4]>::try_from(&*address) {
            address.copy_from_slice(&self.v4(octets, bits));
        } else if let Ok(octets) = <[u8; 16]>::try_from(&*address) {
            address.copy_from_slice(&self.v6(octets, bits));
        } else {
            address.fill(0);
        }
    }

    fn v4(&self, octets: [u8; 4], bits: u8) -> [u8; 4] {
        match self {
            Self::Truncate { v4, .. } => {
                let rest = u32::MAX
                    .checked_shr(u32::from((*v4).min(bits)))
                    .unwrap_or(0);
                (u32::from_be_bytes(octets) & !rest).to_be_bytes()
            }
            Self::CryptoPan(cipher) => cipher.v4(octets, bits),
        }
    }

    fn v6(&self, octets: [u8; 16], bits: u8) -> [u8; 16] {
        if let [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] = octets {
            let mut mapped = octets;
            let inner = self.v4([a, b, c, d], bits.saturating_sub(96));
            mapped[12..].copy_from_slice(&inner);
            return mapped;
        }
        match self {
            Self::Truncate { v6, .. } => {
                let rest = u128::MAX
                    .checked_shr(u32::from((*v6).min(bits)))
                    .unwrap_or(0);
                (u128::from_be_bytes(octets) & !rest).to_be_bytes()
            }
            Self::CryptoPan(cipher) => cipher.v6(octets, bits),
        }
    }

    /// Changes the address of a client subnet, of which only as many octets are there as its prefix needs.
    fn change_subnet(&self, family: u16, source: u8, octets: &mut [u8]) {
        let mut address = [0; 16];
        let len = if family == 1 { 4 } else { 16 };
        if let (Some(there), true) = (address.get_mut(..octets.len()), octets.len() <= len) {
            there.copy_from_slice(octets);
            self.change(&mut address[..len], source);
            octets.copy_from_slice(&address[..octets.len()]);
        }
    }
}

struct Anonymise {
    how: How,
    query: bool,
    response: bool,
    client_subnet: bool,
    addresses: [[u8; 16]; 2],
    /// Addresses of more than 16 octets, which are none.
    long: [Vec<u8>; 2],
    dns: DnsCopies,
    out: Replacement,
}

impl Stage for Anonymise {
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
        let received = record.received();
        let Some((_, message)) = parts(record) else {
            return Verdict::Keep;
        };
        let now = match &mut self.how {
            How::Truncate { v4, v6 } => Now::Truncate { v4: *v4, v6: *v6 },
            How::CryptoPan(keyed) => Now::CryptoPan(keyed.cipher(received)),
        };
        let [query, response] = &mut self.addresses;
        let [long_query, long_response] = &mut self.long;
        let mut edit = Edit::default();
        for (wanted, field, octets, short, long) in [
            (
                self.query,
                Settable::QueryAddress,
                message.query_address,
                query,
                long_query,
            ),
            (
                self.response,
                Settable::ResponseAddress,
                message.response_address,
                response,
                long_response,
            ),
        ] {
            let Some(octets) = octets.filter(|_| wanted) else {
                continue;
            };
            match short.get_mut(..octets.len()) {
                Some(address) => {
                    address.copy_from_slice(octets);
                    now.change(address, 128);
                    edit.set(field, address);
                }
                None => {
                    long.clear();
                    long.resize(octets.len(), 0);
                    edit.set(field, long);
                }
            }
        }
        if self.client_subnet {
            self.dns.edit(&message, &mut edit, |octets, copy| {
                copy.extend_from_slice(octets);
                edit::client_subnets(copy, |family, source, address| {
                    now.change_subnet(family, source, address);
                })
            });
        }
        self.out.make(record, &edit)
    }

    fn replacement(&self) -> &[u8] {
        self.out.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::dnstap::DnstapView;
    use crate::stages::rewrite::tests::{payload, through, view};
    use crate::units::Span;

    const HEX: &str = "1522178d33a4cf80130a5b1649907d10d8988f83797965276257 4c2d2a842202";

    fn addresses(payload: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let m = DnstapView::parse(payload).unwrap().message.unwrap();
        (
            m.query_address.unwrap_or_default().to_vec(),
            m.response_address.unwrap_or_default().to_vec(),
        )
    }

    fn with(query: &[u8]) -> Vec<u8> {
        let mut view = view(b"q", b"r");
        view.message.as_mut().unwrap().query_address = Some(query);
        payload(&view)
    }

    #[test]
    fn truncation_leaves_the_prefix_and_wipes_what_is_no_address() {
        let v6 = |tail: [u8; 10]| [&[0x20, 1, 0xd, 0xb8, 0x12, 0x34][..], &tail].concat();
        let mapped = |v4: [u8; 4]| [&[0; 10][..], &[255, 255], &v4].concat();
        let factory = Factory::new(&AnonymiseOptions::default()).unwrap();
        for (from, to) in [
            (vec![192, 0, 2, 77], vec![192, 0, 2, 0]),
            (v6([9; 10]), v6([0; 10])),
            (mapped([192, 0, 2, 77]), mapped([192, 0, 2, 0])),
            (vec![], vec![]),
            (vec![1; 5], vec![0; 5]),
            (vec![1; 40], vec![0; 40]),
        ] {
            let got = through(&factory, &with(&from), UNIX_EPOCH).unwrap();
            assert_eq!(addresses(&got), (to, vec![198, 51, 100, 53]), "{from:?}");
        }
        for (prefix, want) in [(0, [0; 4]), (23, [192, 0, 2, 0]), (32, [192, 0, 3, 77])] {
            let options = AnonymiseOptions {
                ipv4_prefix: prefix,
                addresses: vec![AddressField::QueryAddress, AddressField::ResponseAddress],
                ..AnonymiseOptions::default()
            };
            let factory = Factory::new(&options).unwrap();
            let got = through(&factory, &with(&[192, 0, 3, 77]), UNIX_EPOCH).unwrap();
            assert_eq!(addresses(&got).0, want, "{prefix}");
            assert_eq!(addresses(&got).1[3] == 53, prefix == 32);
        }
        let over = AnonymiseOptions {
            ipv4_prefix: 33,
            ..AnonymiseOptions::default()
        };
        assert!(Factory::new(&over).is_err());
    }

    #[test]
    fn crypto_pan_takes_its_key_from_a_file_of_octets_or_digits_and_changes_it_with_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let options = |rotate| AnonymiseOptions {
            mode: AnonymiseMode::CryptoPan,
            key_file: path.clone(),
            rotate,
            reload: Span::OFF,
            ..AnonymiseOptions::default()
        };
        assert!(Factory::new(&options(Span::OFF)).is_err(), "no file");
        std::fs::write(&path, "too short").unwrap();
        let error = Factory::new(&options(Span::OFF)).unwrap_err().to_string();
        assert!(error.contains("64 hexadecimal digits"), "{error}");
        let digits = HEX.replace(' ', "");
        let octets = data_encoding::HEXLOWER.decode(digits.as_bytes()).unwrap();
        let after = |secs| UNIX_EPOCH + Duration::from_secs(secs);
        for key in [format!("{digits}\n").into_bytes(), octets] {
            std::fs::write(&path, key).unwrap();
            let factory = Factory::new(&options(Span::OFF)).unwrap();
            let got = through(&factory, &with(&[128, 11, 68, 132]), after(5)).unwrap();
            assert_eq!(addresses(&got).0, [135, 242, 180, 132]);
        }
        let factory = Factory::new(&options(Span::secs(60))).unwrap();
        let at =
            |secs| addresses(&through(&factory, &with(&[192, 0, 2, 1]), after(secs)).unwrap()).0;
        assert_eq!(at(0), at(59));
        assert_ne!(at(59), at(60));
        assert_eq!(at(60), at(119));
    }

    #[test]
    fn the_client_subnet_is_that_of_the_anonymous_client() {
        let dns = |option: &[u8]| {
            let mut out = vec![0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1];
            out.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, option.len() as u8]);
            out.extend(option);
            out
        };
        let (before, after) = (
            dns(b"\0\x08\0\x08\0\x01\x20\0\xc0\0\x02\x4d"),
            dns(b"\0\x08\0\x08\0\x01\x20\0\xc0\0\x02\0"),
        );
        let read = |payload: &[u8]| {
            let m = DnstapView::parse(payload).unwrap().message.unwrap();
            m.query_message.unwrap().to_vec()
        };
        for (client_subnet, want) in [(true, &after), (false, &before)] {
            let options = AnonymiseOptions {
                client_subnet,
                ..AnonymiseOptions::default()
            };
            let factory = Factory::new(&options).unwrap();
            let got = through(&factory, &payload(&view(&before, &before)), UNIX_EPOCH).unwrap();
            assert_eq!(&read(&got), want);
        }
        // Of a /24 under Crypto-PAn, the first three octets of what the client becomes.
        let cipher = CryptoPan::new(&[7; 32]);
        let now = Now::CryptoPan(&cipher);
        let mut whole = [192, 0, 2, 77];
        now.change(&mut whole, 32);
        let mut subnet = [192, 0, 2];
        now.change_subnet(1, 24, &mut subnet);
        assert_eq!(subnet, whole[..3]);
    }
}
