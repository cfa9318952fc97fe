//! Stages that look at records on their way through the pipeline.
pub mod options;
