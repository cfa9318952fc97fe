//! Many streams over one connection: yamux, usable alone.
//!
//! [`Core`] is the protocol without input, output or clock; [`Session`] drives one over anything that reads and writes.
//! Each [`MuxStream`] has its own flow control; [`Config`] bounds what a session may hold. A session ends for a
//! [`CloseReason`] that has a name.
//!
//! Two tasks serve a session. The reader never writes and never waits for a stream or an acceptor; the writer takes the whole
//! queue at once and writes it with vectored writes, control frames first. Streams take turns at the write budget.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
//! use tapflow::mux::{Config, Session};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! let (here, there) = tokio::io::duplex(64 * 1024);
//! let client = Session::client(here, Config::default());
//! let server = Session::server(there, Config::default());
//! let mut out = client.try_open().expect("the quota is fresh");
//! out.write_all(b"frames").await?;
//! out.shutdown().await?;
//! let mut text = String::new();
//! let mut stream = server.accept().await.expect("it was opened");
//! stream.read_to_string(&mut text).await?;
//! assert_eq!(text, "frames");
//! # Ok(()) }
//! ```
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

mod buffer;
mod config;
mod core;
mod driver;
pub mod frame;
mod fuzz;
mod outgoing;
mod reason;
mod session;
mod shared;
mod stall;
mod stream;

pub use self::core::{Core, Event, Received, Role, Status};
pub use buffer::ReadBuffer;
pub use config::Config;
pub use fuzz::fuzz_wire;
pub use outgoing::{Batch, Segment};
pub use reason::{CloseReason, OpenError, StreamError};
pub use session::{Reservation, Session};
pub use stream::MuxStream;

#[cfg(test)]
mod tests;
