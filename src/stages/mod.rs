//! The stages, one file each; [`build`] is the one place that names them all.
//!
//! To add a stage: write `stages/NAME.rs` with a [`StageFactory`] and its
//! [`Stage`](crate::pipeline::stage::Stage), give it a variant in [`options::StageOptions`], and one line in [`build`].

use std::path::PathBuf;

use crate::dns::NameTextError;
use crate::filter::FilterError;
use crate::pipeline::stage::{StageContext, StageFactory};
use crate::stages::options::StageOptions;

pub mod anonymise;
mod crypto_pan;
pub mod decode;
pub mod drop_answers;
pub mod fields;
pub mod filter;
pub mod geoip;
pub mod lowercase;
pub mod metrics;
pub mod options;
pub mod registered_domain;
mod reload;
mod rewrite;
pub mod sample;
pub mod tags;
pub mod transform_options;

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
    /// Settings that do not go together.
    #[error("{0}")]
    Settings(&'static str),
    /// A file that is not there or does not hold what it should.
    #[error("{}: {why}", path.display())]
    File {
        /// Where it should be.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Not a filter expression.
    #[error("the filter expression is wrong at {0}")]
    Expression(FilterError),
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
/// Settings that name something that does not exist, contradict each other, or need a file that cannot be used.
pub fn build(
    options: &StageOptions,
    context: &StageContext<'_>,
) -> Result<Box<dyn StageFactory>, StageError> {
    Ok(match options {
        StageOptions::Decode(_) => Box::new(decode::Factory::new(context)),
        StageOptions::Filter(options) => Box::new(filter::Factory::new(options)?),
        StageOptions::Sample(options) => Box::new(sample::Factory::new(options)),
        StageOptions::Metrics(options) => Box::new(metrics::Factory::new(options, context)),
        StageOptions::Lowercase(_) => Box::new(lowercase::Factory),
        StageOptions::Anonymise(options) => Box::new(anonymise::Factory::new(options)?),
        StageOptions::DropAnswers(options) => Box::new(drop_answers::Factory::new(options)),
        StageOptions::Fields(options) => Box::new(fields::Factory::new(options)?),
        StageOptions::RegisteredDomain(options) => {
            Box::new(registered_domain::Factory::new(options)?)
        }
        StageOptions::Geoip(options) => Box::new(geoip::Factory::new(options)?),
        StageOptions::Tags(options) => Box::new(tags::Factory::new(options)?),
    })
}
