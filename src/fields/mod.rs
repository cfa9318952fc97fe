//! The named fields of a record: one table ([`table`]) that columns, templates and filters read alike.
//!
//! A [`Subject`] is a record that is asked for fields. It decodes what a field needs when the first field needs it: the
//! DNS header and question once, EDNS once. A [`Value`] is borrowed from the frame. What a frame does not say is `None`;
//! nothing is filled in.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

mod list;
pub mod table;
pub mod value;
pub mod vocabulary;

use std::time::{SystemTime, UNIX_EPOCH};

use crate::dns::{DnsView, Edns};
use crate::dnstap::{DnstapView, Message, Timestamp};

pub use table::{Field, Spec, UnknownField, specs};
pub use value::{Kind, Value};
pub use vocabulary::{UnknownWord, Vocabulary};

/// A record that is asked for fields.
#[derive(Debug)]
pub struct Subject<'a> {
    view: &'a DnstapView<'a>,
    received: Option<SystemTime>,
    listener: &'a str,
    peer: &'a str,
    dns: Option<Option<DnsView<'a>>>,
    edns: Option<Option<Edns<'a>>>,
}

impl<'a> Subject<'a> {
    /// Of a view. Decodes nothing yet.
    pub fn new(view: &'a DnstapView<'a>) -> Self {
        Self {
            view,
            received: None,
            listener: "",
            peer: "",
            dns: None,
            edns: None,
        }
    }

    /// With how the frame came: when it was received, over which listener and from whom. Empty is absent.
    #[must_use]
    pub fn with_source(
        mut self,
        received: Option<SystemTime>,
        listener: &'a str,
        peer: &'a str,
    ) -> Self {
        (self.received, self.listener, self.peer) = (received, listener, peer);
        self
    }

    /// With header and question of the DNS message, where somebody has read them before.
    #[must_use]
    pub fn with_dns(mut self, dns: Option<DnsView<'a>>) -> Self {
        self.dns = Some(dns);
        self
    }

    /// Whether the DNS message was looked into so far.
    pub fn has_read_dns(&self) -> bool {
        self.dns.is_some()
    }

    /// The dnstap view.
    pub fn view(&self) -> &'a DnstapView<'a> {
        self.view
    }

    /// The dnstap message.
    pub fn message(&self) -> Option<&'a Message<'a>> {
        self.view.message.as_ref()
    }

    /// Header and question of the DNS message; `None` where there is none, or not even a header.
    pub fn dns(&mut self) -> Option<DnsView<'a>> {
        let message = self.message();
        *self.dns.get_or_insert_with(|| {
            let (octets, _) = message?.dns()?;
            DnsView::parse(octets).ok()
        })
    }

    /// EDNS of the DNS message.
    pub fn edns(&mut self) -> Option<Edns<'a>> {
        if self.edns.is_none() {
            self.edns = Some(self.dns().and_then(|dns| dns.edns()));
        }
        self.edns.flatten()
    }

    /// When the frame was received.
    fn received(&self) -> Option<Timestamp> {
        let since = self.received?.duration_since(UNIX_EPOCH).ok()?;
        Some(Timestamp {
            seconds: since.as_secs(),
            nanos: since.subsec_nanos(),
        })
    }
}

/// Which of `names` is most like `text`, letter case aside; `None` when none is like it.
pub(crate) fn nearest(
    text: &str,
    names: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    let text = text.to_ascii_lowercase();
    names
        .map(|name| (strsim::jaro(&text, &name.to_ascii_lowercase()), name))
        .filter(|(likeness, _)| *likeness > 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
