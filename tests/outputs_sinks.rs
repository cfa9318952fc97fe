//! Outputs as the process runs them: lanes and queues in front, real files and sockets behind, and a ledger that must close.

#[path = "outputs/file.rs"]
mod file;
#[path = "outputs/forward.rs"]
mod forward;
#[path = "outputs/policy.rs"]
mod policy;
#[path = "outputs/support.rs"]
mod support;
