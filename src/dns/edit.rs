//! Changes to a DNS message: letter case of names, sections left out, client subnets.
//!
//! A change keeps every octet that it is not about. Where a message cannot be read any further, [`lower_case`] and
//! [`client_subnets`] leave the rest as it is, and [`without`] leaves it out.

use crate::dns::edns::Edns;
use crate::dns::header::Header;
use crate::dns::name::Name;
use crate::dns::octets::u16_at;
use crate::dns::question::DnsView;
use crate::dns::rdata::{self, Part, Piece, parts};
use crate::dns::records::{Fixed, Record, Section};
use crate::dns::walk::skip_name;

/// Types whose names are compared without regard to letter case, so that lower case is their canonical form (RFC 4034,
/// 6.2, with RFC 6840, 5.1; it names the types that RFC 3597, 7, does, and those that RFC 3597, 4, lets be compressed are
/// among them).
const fn folds(rtype: u16) -> bool {
    matches!(
        rtype,
        2..=9 | 12 | 14 | 15 | 17 | 18 | 21 | 24 | 26 | 33 | 35 | 36 | 39 | 46
    )
}

/// Makes the letters A to Z of every name small: questions, owners, and names in the data of the types of RFC 4034, 6.2.
/// Says whether there were any. A name that goes on behind a pointer is changed where that part stands, if a name stands
/// there; octets that are no name are not touched because a pointer leads to them.
pub fn lower_case(message: &mut [u8]) -> bool {
    let mut changed = false;
    // What comes before a part that cannot be read has been changed by then.
    let _ = lower_all(message, &mut changed);
    changed
}

fn lower_all(message: &mut [u8], changed: &mut bool) -> Option<()> {
    let header = Header::parse(message)?;
    let mut at = Header::LEN;
    for _ in 0..header.questions {
        at = lower_name(message, at, changed)? + 4;
    }
    for _ in 0..records(&header) {
        at = lower_name(message, at, changed)?;
        let fixed = Fixed::parse(message, at).filter(|fixed| fixed.end <= message.len())?;
        at = fixed.end;
        if !folds(fixed.rtype) {
            continue;
        }
        let mut data = fixed.start;
        for part in parts(fixed.rtype, fixed.class).unwrap_or_default() {
            // Not what the type says: the next record is where the length says.
            let Some((_, next)) = rdata::take(message.get(..fixed.end)?, data, *part) else {
                break;
            };
            if *part == Part::Name {
                lower_name(message, data, changed)?;
            }
            data = next;
        }
    }
    Some(())
}

fn records(header: &Header) -> u32 {
    [header.answers, header.authorities, header.additionals]
        .into_iter()
        .map(u32::from)
        .sum()
}

/// Makes the labels from `at` on small, up to the root label or a pointer, and says where the name ends there.
fn lower_name(message: &mut [u8], at: usize, changed: &mut bool) -> Option<usize> {
    let (_, end) = Name::parse(message, at).ok()?;
    let mut at = at;
    while let Some(&len @ 1..0x40) = message.get(at) {
        let label = message.get_mut(at + 1..at + 1 + usize::from(len))?;
        if label.iter().any(u8::is_ascii_uppercase) {
            label.make_ascii_lowercase();
            *changed = true;
        }
        at += 1 + usize::from(len);
    }
    Some(end)
}

/// Gives `change` the family, the source prefix length and the address octets of every client subnet (RFC 7871) in every
/// OPT record. Octets after the fourth (IPv4) or sixteenth (IPv6), addresses of other families, and whatever an option of
/// fewer than four octets holds cannot be changed for the better and become 0. Says whether there was a client subnet.
pub fn client_subnets(message: &mut [u8], mut change: impl FnMut(u16, u8, &mut [u8])) -> bool {
    let mut found = false;
    let _ = each_subnet(message, &mut |option| {
        found = true;
        let Some((head, address)) = option.split_first_chunk_mut::<4>() else {
            option.fill(0);
            return;
        };
        let [high, low, source, _] = *head;
        let family = u16::from_be_bytes([high, low]);
        let len = match family {
            1 => 4,
            2 => 16,
            _ => 0,
        };
        let (known, beyond) = address.split_at_mut(len.min(address.len()));
        beyond.fill(0);
        if !known.is_empty() {
            change(family, source, known);
        }
    });
    found
}

fn each_subnet(message: &mut [u8], change: &mut dyn FnMut(&mut [u8])) -> Option<()> {
    let header = Header::parse(message)?;
    let mut at = Header::LEN;
    for _ in 0..header.questions {
        at = skip_name(message, at)? + 4;
    }
    for _ in 0..records(&header) {
        let fixed = Fixed::parse(message, skip_name(message, at)?)?;
        at = fixed.end;
        if fixed.rtype != Edns::RTYPE {
            continue;
        }
        let end = fixed.end.min(message.len());
        let mut rest = message.get_mut(fixed.start..end)?;
        while let Some(([a, b, c, d], tail)) = rest.split_first_chunk_mut::<4>() {
            let code = u16::from_be_bytes([*a, *b]);
            let len = usize::from(u16::from_be_bytes([*c, *d])).min(tail.len());
            let (data, tail) = tail.split_at_mut(len);
            if code == 8 {
                change(data);
            }
            rest = tail;
        }
    }
    Some(())
}

/// Which sections to leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sections {
    /// Answers; the prerequisites of an UPDATE.
    pub answer: bool,
    /// Authority; the updates of an UPDATE.
    pub authority: bool,
    /// Additional data, but for OPT.
    pub additional: bool,
}

impl Sections {
    const fn has(self, record: &Record<'_>) -> bool {
        match record.section {
            Section::Answer => self.answer,
            Section::Authority => self.authority,
            Section::Additional => self.additional && record.rtype != Edns::RTYPE,
        }
    }
}

/// Appends `message` without the records of `sections` to `out`, its counts made to fit, and says whether anything was
/// left out; if not, nothing is appended. Records that stay and move have their names written out where a pointer would
/// lead astray. From the first octet that cannot be read on, everything is left out: it may be what was to go.
pub fn without(message: &[u8], sections: Sections, out: &mut Vec<u8>) -> bool {
    let Ok(view) = DnsView::parse(message) else {
        return false;
    };
    let header = view.header();
    let [answers, authorities, additionals] =
        [header.answers, header.authorities, header.additionals];
    let any = (sections.answer && answers > 0)
        || (sections.authority && authorities > 0)
        || (sections.additional && additionals > 0);
    if !any {
        return false;
    }
    let start = out.len();
    let mut questions = view.questions();
    let asked = questions.by_ref().map(|_| 1u16).sum::<u16>();
    let mut counts = [asked, 0, 0, 0];
    let mut all = view.records();
    // Octets [0, cut) of the message stay where they are.
    let (mut cut, mut moved) = (questions.offset(), false);
    out.extend_from_slice(message.get(..cut).unwrap_or_default());
    for record in all.by_ref() {
        if sections.has(&record) {
            moved = true;
            continue;
        }
        let before = out.len();
        if !moved {
            cut = all_end(&record);
            out.extend_from_slice(message.get(record.offset()..cut).unwrap_or_default());
        } else if move_record(message, &record, cut, out).is_none() {
            out.truncate(before);
            continue;
        }
        let count = match record.section {
            Section::Answer => counts.get_mut(1),
            Section::Authority => counts.get_mut(2),
            Section::Additional => counts.get_mut(3),
        };
        if let Some(count) = count {
            *count += 1;
        }
    }
    let readable = questions.stop().is_none() && all.stop().is_none();
    if !moved && readable {
        out.truncate(start);
        return false;
    }
    if readable {
        out.extend_from_slice(message.get(all.offset()..).unwrap_or_default());
    }
    for (i, count) in counts.into_iter().enumerate() {
        let at = start + 4 + 2 * i;
        if let Some(place) = out.get_mut(at..at + 2) {
            place.copy_from_slice(&count.to_be_bytes());
        }
    }
    true
}

fn all_end(record: &Record<'_>) -> usize {
    record.data_offset() + record.data().len()
}

/// Appends a record with every name such that it needs nothing of the message from `cut` on. `None` when its data would be
/// longer than 65,535 octets.
fn move_record(message: &[u8], record: &Record<'_>, cut: usize, out: &mut Vec<u8>) -> Option<()> {
    move_name(message, record.offset(), cut, out)?;
    let (data, start) = record.in_message();
    out.extend_from_slice(message.get(start.checked_sub(10)?..start)?);
    let at = out.len();
    let shape = parts(record.rtype, record.class).filter(|_| record.is_well_formed());
    let mut from = start;
    for part in shape.unwrap_or_default() {
        let (piece, next) = rdata::take(data, from, *part)?;
        match piece {
            Piece::Name(_) => move_name(data, from, cut, out)?,
            _ => out.extend_from_slice(data.get(from..next)?),
        }
        from = next;
    }
    out.extend_from_slice(data.get(from..)?);
    let len = u16::try_from(out.len() - at).ok()?;
    out.get_mut(at - 2..at)?.copy_from_slice(&len.to_be_bytes());
    Some(())
}

/// Appends the name at `at`: a pointer to before `cut` as it is, the labels behind any other one in its place.
fn move_name(message: &[u8], at: usize, cut: usize, out: &mut Vec<u8>) -> Option<()> {
    // Bounds the walk below: pointers of a name that was read lead back and are few.
    Name::parse(message, at).ok()?;
    let mut at = at;
    loop {
        match *message.get(at)? {
            0 => {
                out.push(0);
                return Some(());
            }
            len @ 1..0x40 => {
                let end = at + 1 + usize::from(len);
                out.extend_from_slice(message.get(at..end)?);
                at = end;
            }
            _ => {
                let target = usize::from(u16_at(message, at)? & 0x3fff);
                if target < cut {
                    out.extend_from_slice(message.get(at..at + 2)?);
                    return Some(());
                }
                at = target;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Header with these counts, then the parts.
    fn message(counts: [u8; 4], parts: &[&[u8]]) -> Vec<u8> {
        let [q, a, n, r] = counts;
        let head = [0xab, 0xcd, 0x81, 0x80, 0, q, 0, a, 0, n, 0, r];
        [&head[..], &parts.concat()].concat()
    }

    const QUESTION: &[u8] = b"\x03WwW\x07eXample\0\0\x01\0\x01";

    fn record(owner: &[u8], rtype: u16, data: &[u8]) -> Vec<u8> {
        let mut out = owner.to_vec();
        out.extend(rtype.to_be_bytes());
        out.extend([0, 1, 0, 0, 0, 9]);
        out.extend((data.len() as u16).to_be_bytes());
        out.extend(data);
        out
    }

    fn opt(options: &[u8]) -> Vec<u8> {
        let mut out = vec![0, 0, 41, 4, 208, 0, 0, 128, 0];
        out.extend((options.len() as u16).to_be_bytes());
        out.extend(options);
        out
    }

    #[test]
    fn names_become_small_and_no_other_octet_changes() {
        let cname = |name: &[u8]| record(b"\xc0\x0c", 5, name);
        let parts = |w: &[u8], x: &[u8], t: &[u8]| {
            [
                [b"\x03", w, b"\x07", x, b"\0\0\x01\0\x01"].concat(),
                cname(&[b"\x01", t, b"\xc0\x10"].concat()),
                // TXT, and an unknown type: octets, not names.
                record(b"\xc0\x0c", 16, b"\x03ABC"),
                record(b"\xc0\x0c", 0xff01, b"\x03ABC\0"),
                record(b"\0", 15, &[b"\0A\x01", t, b"\0"].concat()),
                // NSEC keeps its case (RFC 6840, 5.1), SVCB has no canonical form of its own.
                record(b"\0", 47, b"\x01N\0\0\x01\x40"),
                record(b"\0", 65, b"\0\x01\x01S\0"),
                record(b"\0", 46, &[&[b'A'; 18][..], b"\x01", t, b"\0SIG"].concat()),
                // A pointer to the TXT data: they are no name, so they stay.
                opt(b"\0\x03\0\x02AB"),
            ]
            .concat()
        };
        let mut got = message([1, 6, 1, 1], &[&parts(b"WwW", b"eXample", b"T")]);
        let want = message([1, 6, 1, 1], &[&parts(b"www", b"example", b"t")]);
        assert!(lower_case(&mut got));
        assert_eq!(got, want);
        assert!(!lower_case(&mut got), "nothing is left to change");
        // Octets that are no letters although they look so with a bit changed.
        let mut odd = message([1, 0, 0, 0], &[b"\x05@[`{\xc1\0\0\x01\0\x01"]);
        assert!(!lower_case(&mut odd));
    }

    #[test]
    fn a_message_cut_anywhere_keeps_its_rest_and_nothing_panics() {
        let whole = message(
            [1, 2, 0, 1],
            &[
                QUESTION,
                &record(b"\xc0\x0c", 5, b"\x01T\xc0\x10"),
                &record(b"\xc0\x0c", 15, b"\0\x01\xc0\x0c"),
                &opt(b"\0\x08\0\x07\0\x01\x18\0\xc0\0\x02"),
            ],
        );
        let all = Sections {
            answer: true,
            authority: true,
            additional: true,
        };
        for cut in 0..=whole.len() {
            let mut got = whole[..cut].to_vec();
            lower_case(&mut got);
            assert!(got.eq_ignore_ascii_case(&whole[..cut]));
            client_subnets(&mut got, |_, _, octets| octets.fill(0));
            assert_eq!(got.len(), cut);
            let mut out = Vec::new();
            without(&whole[..cut], all, &mut out);
            assert!(out.len() <= cut);
        }
        // Every octet of the message with every value in turn.
        for at in 0..whole.len() {
            for value in [0, 1, 0x3f, 0x40, 0xc0, 0xff] {
                let mut odd = whole.clone();
                odd[at] = value;
                let mut out = Vec::new();
                without(&odd, all, &mut out);
                let some = Sections {
                    answer: true,
                    authority: false,
                    additional: false,
                };
                without(&odd, some, &mut out);
                client_subnets(&mut odd, |_, _, octets| octets.fill(0));
                lower_case(&mut odd);
            }
        }
    }

    #[test]
    fn client_subnets_are_changed_in_place_and_what_is_no_address_is_wiped() {
        let change = |options: &[u8]| {
            let mut got = message([1, 0, 0, 1], &[QUESTION, &opt(options)]);
            let found = client_subnets(&mut got, |family, source, octets| {
                assert!(matches!((family, source), (1, 24) | (2, 56)));
                octets.fill(0xee);
            });
            (found, got.split_off(12 + QUESTION.len() + 11))
        };
        let rows: &[(&[u8], &[u8], bool)] = &[
            (
                b"\0\x08\0\x07\0\x01\x18\0\xc0\0\x02",
                b"\0\x08\0\x07\0\x01\x18\0\xee\xee\xee",
                true,
            ),
            (
                b"\0\x0a\0\x01A\0\x08\0\x06\0\x02\x38\0\x20\x01\0\x03\0\x01Z",
                b"\0\x0a\0\x01A\0\x08\0\x06\0\x02\x38\0\xee\xee\0\x03\0\x01Z",
                true,
            ),
            // Five octets of IPv4, an unknown family, a stump, and one that runs past the record.
            (
                b"\0\x08\0\x09\0\x01\x18\0ABCDE",
                b"\0\x08\0\x09\0\x01\x18\0\xee\xee\xee\xee\0",
                true,
            ),
            (
                b"\0\x08\0\x06\0\x07\x18\0AB",
                b"\0\x08\0\x06\0\x07\x18\0\0\0",
                true,
            ),
            (b"\0\x08\0\x02AB", b"\0\x08\0\x02\0\0", true),
            (
                b"\0\x08\0\x0c\0\x01\x18\0AB",
                b"\0\x08\0\x0c\0\x01\x18\0\xee\xee",
                true,
            ),
            (b"\0\x09\0\x02AB", b"\0\x09\0\x02AB", false),
        ];
        for (options, want, found) in rows {
            assert_eq!(change(options), (*found, want.to_vec()), "{options:?}");
        }
    }

    fn cut(message: &[u8], which: [bool; 3]) -> Option<Vec<u8>> {
        let mut out = b"x".to_vec();
        let [answer, authority, additional] = which;
        let sections = Sections {
            answer,
            authority,
            additional,
        };
        let changed = without(message, sections, &mut out);
        assert_eq!(out.remove(0), b'x');
        assert!(changed || out.is_empty());
        changed.then_some(out)
    }

    #[test]
    fn records_go_and_opt_stays_with_counts_that_fit() {
        let a = record(b"\xc0\x0c", 1, &[1, 2, 3, 4]);
        let opt = opt(b"");
        let whole = message([1, 2, 0, 2], &[QUESTION, &a, &a, &a, &opt]);
        assert_eq!(
            cut(&whole, [true; 3]),
            Some(message([1, 0, 0, 1], &[QUESTION, &opt]))
        );
        assert_eq!(
            cut(&whole, [false, true, true]),
            Some(message([1, 2, 0, 1], &[QUESTION, &a, &a, &opt]))
        );
        assert_eq!(cut(&whole, [false, true, false]), None);
        assert_eq!(cut(&message([1, 0, 0, 0], &[QUESTION]), [true; 3]), None);
        let only_opt = message([1, 0, 0, 1], &[QUESTION, &opt, b"trailing"]);
        assert_eq!(cut(&only_opt, [true; 3]), None);
    }

    #[test]
    fn records_that_move_carry_the_names_that_they_pointed_to() {
        // The answer's data, `ns` and a pointer, are what authority and additional point to.
        let answer = record(b"\xc0\x0c", 5, b"\x02ns\xc0\x10");
        let at = (12 + QUESTION.len() + 12) as u8;
        let pointer = [0xc0, at];
        let authority = record(&pointer, 2, &[b"\x01a", &pointer[..]].concat());
        let unknown = record(b"\xc0\x0c", 0xff01, &pointer);
        let whole = message([1, 1, 2, 0], &[QUESTION, &answer, &authority, &unknown]);
        let got = cut(&whole, [true, false, false]).unwrap();
        let moved = record(b"\x02ns\xc0\x10", 2, b"\x01a\x02ns\xc0\x10");
        assert_eq!(
            got,
            message([1, 0, 2, 0], &[QUESTION, &moved, &unknown]),
            "data of unknown types are not looked into"
        );
        let read = DnsView::parse(&got).unwrap();
        assert_eq!(read.walk().malformed, None);
    }

    #[test]
    fn what_cannot_be_read_is_left_out_with_the_answers() {
        let a = record(b"\xc0\x0c", 1, &[1, 2, 3, 4]);
        let whole = message([1, 2, 0, 0], &[QUESTION, &a, b"\x40secret"]);
        assert_eq!(
            cut(&whole, [true; 3]),
            Some(message([1, 0, 0, 0], &[QUESTION]))
        );
        let question = message([1, 1, 0, 0], &[b"\x40", &a]);
        assert_eq!(cut(&question, [true; 3]), Some(message([0, 0, 0, 0], &[])));
        assert_eq!(cut(b"short", [true; 3]), None);
    }
}
