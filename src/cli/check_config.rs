//! `tapflow check-config`.
