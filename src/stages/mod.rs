//! The stages, one file each; [`build`] is the one place that names them all.
//!
//! To add a stage: write `stages/NAME.rs` with a [`StageFactory`] and its
//! [`Stage`](crate::pipeline::stage::Stage), give it a variant in [`options::StageOptions`], and one line in [`build`].

use crate::dns::NameTextError;
use crate::pipeline::stage::{StageContext, StageFactory};
use crate::stages::options::StageOptions;

pub mod decode;
pub mod filter;
pub mod metrics;
pub mod options;
pub mod sample;

/// A stage cannot be made from its settings.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// A word that names nothing.
    #[error("{text:?} is no {what}")]
    Unknown {
        /// What it should be.
        what: &'static str,
        /// The word.
        text: String,
    },
    /// Not a domain name.
    #[error("{text:?} is no domain name: {source}")]
    Name {
        /// The text.
        text: String,
        /// Why.
        source: NameTextError,
    },
}

/// Makes the factory of a stage.
///
/// # Errors
/// Settings that name something that does not exist.
pub fn build(
    options: &StageOptions,
    context: &StageContext<'_>,
) -> Result<Box<dyn StageFactory>, StageError> {
    Ok(match options {
        StageOptions::Decode(_) => Box::new(decode::Factory::new(context)),
        StageOptions::Filter(options) => Box::new(filter::Factory::new(options)?),
        StageOptions::Sample(options) => Box::new(sample::Factory::new(options)),
        StageOptions::Metrics(options) => Box::new(metrics::Factory::new(options, context)),
    })
}
