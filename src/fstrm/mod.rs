//! Frame Streams, the framing under dnstap, as machines that do no I/O: bytes in, values and actions out.
//!
//! # The protocol in one page
//! All integers are 32 bits, big-endian. A length that is not zero introduces a *data frame*; a zero is the escape that
//! introduces a *control frame*, which is why there are no empty data frames.
//! ```text
//!   data frame       len >= 1 | payload (len octets)
//!   control frame    00000000 | clen >= 4 | type | field*        clen counts type and fields
//!   field            ftype | flen | octets                       ftype 1 = content type, at most 256 octets
//!   control types    ACCEPT 1  START 2  STOP 3  READY 4  FINISH 5
//! ```
//! Three ways to speak it ([`Dialect`]):
//! ```text
//!   bidirectional    READY →   ← ACCEPT   START →   data* →   STOP →   ← FINISH
//!   unidirectional                        START →   data* →   STOP →             (also the layout of a .fstrm file)
//!   raw                                             data* →
//! ```
//! With [`mark`] the receiver also says which frames its outputs have taken. DNS-collector's senders may compress each data frame by itself ([`compress`]); control frames stay plain.
//!
//! # The unit is the run
//! A *run* is a number of whole data frames one after another, exactly as on the wire. [`Decoder::next`] finds the
//! longest run in a [`FrameBuf`] by walking the length words only; its bytes are borrowed, or split off as one shared
//! [`Bytes`](bytes::Bytes), and writing them again *is* relaying them. [`Frames`] iterates over the payloads of a run.
//! Nothing here allocates, copies or counts per frame.
//!
//! # Reading order
//! [`FrameBuf`] (where bytes wait), [`Decoder`] (where they become runs and control frames), [`Receiver`] and
//! [`Sender`] (what a control frame means, and what to answer), [`sniff`] (which protocol it is at all), [`compress`].
//! A receiver's loop, without the socket:
//! ```
//! use tapflow::fstrm::{BufOptions, BufPool, Decoder, FrameBuf, Frames, Item, Limits, Oversize};
//! use tapflow::fstrm::{Action, ContentType, Mode, Receiver, Sniff, sniff};
//!
//! let stream = b"\0\0\0\x02hi\0\0\0\x05there"; // raw: no control frames at all
//! let mut buf = FrameBuf::new(BufOptions::default(), BufPool::new(64 * 1024, 4));
//! let mut decoder = Decoder::new(Limits::default(), Oversize::Skip);
//! let mut receiver = Receiver::new(Mode::Raw, vec![ContentType::DNSTAP]);
//! buf.extend(stream);
//! let mut payloads = Vec::new();
//! while let Some(item) = decoder.next(&mut buf)? {
//!     match item {
//!         Item::Run { len, .. } => {
//!             receiver.on_data()?;
//!             Frames::new(buf.unread().get(..len).unwrap_or_default()).for_each(|p| payloads.push(p.to_vec()));
//!             buf.consume(len);
//!         }
//!         Item::Skipped { .. } => { receiver.on_data()?; }
//!         Item::Control(control) => match receiver.on_control(&control)? {
//!             Action::Reply(_) | Action::Started | Action::Mark(_) | Action::Ignored(_) => {}
//!             Action::Stopped { .. } => break,
//!         },
//!     }
//! }
//! assert_eq!(payloads, [b"hi".to_vec(), b"there".to_vec()]);
//! assert_eq!(receiver.on_eof(decoder.mid_frame(&buf)).as_str(), "clean");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

mod buffer;
pub mod compress;
mod control;
mod decode;
mod detect;
pub mod encode;
mod end;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod handshake;
pub mod mark;
mod pool;

pub use self::buffer::BufOptions;
pub use self::buffer::FrameBuf;
pub use self::compress::Codec;
pub use self::compress::CompressError;
pub use self::compress::CompressReason;
pub use self::compress::Compression;
pub use self::compress::Compressor;
pub use self::compress::Decompressor;
pub use self::compress::Inner;
pub use self::control::CONTENT_TYPE_DNSTAP;
pub use self::control::CONTENT_TYPE_DNSTAP_ACK;
pub use self::control::CONTENT_TYPE_LEN_MAX;
pub use self::control::ContentType;
pub use self::control::ContentTypeTooLong;
pub use self::control::Control;
pub use self::control::ControlKind;
pub use self::decode::Decoder;
pub use self::decode::Frames;
pub use self::decode::Item;
pub use self::decode::Limits;
pub use self::decode::Oversize;
pub use self::decode::View;
pub use self::detect::Sniff;
pub use self::detect::sniff;
pub use self::encode::EncodeError;
pub use self::end::End;
pub use self::error::DecodeError;
pub use self::error::DecodeReason;
pub use self::error::FirstOctets;
pub use self::error::HandshakeError;
pub use self::error::NotARun;
pub use self::handshake::Action;
pub use self::handshake::Data;
pub use self::handshake::Dialect;
pub use self::handshake::Mode;
pub use self::handshake::Receiver;
pub use self::handshake::Sender;
pub use self::handshake::SenderAction;
pub use self::mark::BatchId;
pub use self::mark::Mark;
pub use self::pool::BufPool;
