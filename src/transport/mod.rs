//! Sockets to listen on and to connect with.
pub mod options;
