//! The commands.
pub mod check_config;
