//! The filter stage: keeps the frames that match every list that is given, and counts the others as filtered.
//!
//! Settings are compiled once; a frame is compared in place, and only what the lists ask about is decoded.

use crate::dns::{NameBuf, iana};
use crate::dnstap::MessageType;
use crate::pipeline::batch::Origin;
use crate::pipeline::stage::{Record, Stage, StageFactory, Verdict};
use crate::stages::StageError;
use crate::stages::options::FilterOptions;
use crate::units::Net;

/// Makes filter stages.
#[derive(Clone, Debug)]
pub struct Factory(Matcher);

impl Factory {
    /// Compiles the settings.
    ///
    /// # Errors
    /// A message type, name, record type or response code that does not exist.
    pub fn new(options: &FilterOptions) -> Result<Self, StageError> {
        Ok(Self(Matcher::new(options)?))
    }
}

impl StageFactory for Factory {
    fn build(&self, _origin: &Origin) -> Box<dyn Stage> {
        Box::new(Filter(self.0.clone()))
    }
}

/// Compiled filter settings; also used by the commands that read files.
#[derive(Clone, Debug)]
pub struct Matcher {
    message_types: Vec<MessageType>,
    suffixes: Vec<NameBuf>,
    qtypes: Vec<u16>,
    rcodes: Vec<u16>,
    networks: Vec<Net>,
    invert: bool,
}

impl Matcher {
    /// Compiles the settings.
    ///
    /// # Errors
    /// A message type, name, record type or response code that does not exist.
    pub fn new(options: &FilterOptions) -> Result<Self, StageError> {
        let unknown = |what: &'static str, text: &str| StageError::Unknown {
            what,
            text: text.to_owned(),
        };
        Ok(Self {
            message_types: options
                .message_types
                .iter()
                .map(|t| MessageType::from_name(t).ok_or_else(|| unknown("dnstap message type", t)))
                .collect::<Result<_, _>>()?,
            suffixes: options
                .qname_suffixes
                .iter()
                .map(|t| {
                    NameBuf::parse(t).map_err(|e| StageError::Name {
                        text: t.clone(),
                        source: e,
                    })
                })
                .collect::<Result<_, _>>()?,
            qtypes: options
                .qtypes
                .iter()
                .map(|t| iana::type_number(t).ok_or_else(|| unknown("record type", t)))
                .collect::<Result<_, _>>()?,
            rcodes: options
                .rcodes
                .iter()
                .map(|t| iana::rcode_number(t).ok_or_else(|| unknown("response code", t)))
                .collect::<Result<_, _>>()?,
            networks: options.networks.clone(),
            invert: options.invert,
        })
    }

    /// Whether the frame is to be kept.
    pub fn matches(&self, record: &mut Record<'_>) -> bool {
        self.all_lists(record) != self.invert
    }

    fn all_lists(&self, record: &mut Record<'_>) -> bool {
        let Ok(message) = record.message() else {
            return false;
        };
        if !self.message_types.is_empty() && !self.message_types.contains(&message.message_type()) {
            return false;
        }
        if !self.networks.is_empty() {
            let client = message.client_ip();
            if !client.is_some_and(|ip| self.networks.iter().any(|net| net.contains(ip))) {
                return false;
            }
        }
        if self.suffixes.is_empty() && self.qtypes.is_empty() && self.rcodes.is_empty() {
            return true;
        }
        let Some(dns) = record.dns() else {
            return false;
        };
        if !self.suffixes.is_empty() || !self.qtypes.is_empty() {
            let Some(question) = dns.question() else {
                return false;
            };
            if !self.qtypes.is_empty() && !self.qtypes.contains(&question.qtype) {
                return false;
            }
            if !self.suffixes.is_empty()
                && !self.suffixes.iter().any(|s| question.name.is_within(s))
            {
                return false;
            }
        }
        self.rcodes.is_empty()
            || (dns.is_response && dns.view.is_ok_and(|v| self.rcodes.contains(&v.rcode())))
    }
}

struct Filter(Matcher);

impl Stage for Filter {
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
        if self.0.matches(record) {
            Verdict::Keep
        } else {
            Verdict::Filter
        }
    }
}
