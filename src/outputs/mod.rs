//! Outputs that frames are delivered to.
pub mod options;
