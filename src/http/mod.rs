//! The HTTP server for metrics, ledger and health.
pub mod options;
