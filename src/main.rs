//! The `tapflow` program.
fn main() {}
