//! What BIND 9.18's `dnstap-read` prints: its one line a record ([`line`](mod@line)) and its YAML ([`yaml`]), byte for byte.
//!
//! Where the program loses or misstates something, this differs from it and keeps the shape. The whole list:
//!
//! | case | `dnstap-read` 9.18.49 | here |
//! |---|---|---|
//! | no question (corpus t04, t18) | prints nothing | `?/?/?`; YAML without a question section |
//! | a message that it does not decode: an odd option, a second OPT, two questions, cut records, bad data | `?/?/?`, no message in the YAML | the question, and every record up to where the message breaks; data that are not what their type says in the form for unknown types |
//! | a name that points into the header (n06) | the name | `?/?/?` |
//! | an unknown message type (p52) | prints nothing | `??`; its number in the YAML |
//! | seconds over 2^32 | cut to 32 bits | the time, or as unknown from the year 10000 on |
//! | seconds without nanoseconds (p27) | as unknown | the time with a fraction of zero |
//! | nanoseconds of a second and more (p21) | aborts | the seconds, and `.???` in the line |
//! | an address of neither 4 nor 16 octets (p09) | prints nothing; YAML shows other octets | `?`; YAML leaves it out |
//! | times to live that differ within a set (r17) | the lowest for all | each as sent |
//! | an SOA twice in one section, as in a zone transfer | once | twice, together |
//! | data of UNSPEC | its own form | the form for unknown types |
//! | text that plain YAML cannot hold: identities, zones, options | breaks the document, or control octets | quoted and escaped |
//!
//! DoT, DoH and DoQ are `UDP`, as the program has it. Records are in its order: those of one owner together, and
//! within them those of one type and class, except in an UPDATE.

pub mod line;
mod message;
mod options;
mod style;
pub mod yaml;

pub(super) use style::{cert_name, v6 as write_v6};
