//! Credit in both directions, and turns at the write budget.

use bytes::Bytes;

use crate::mux::frame::{Flags, Header, Kind};
use crate::mux::reason::StreamError;

use super::{Core, Received, TURN};

impl Core {
    /// Grants what is due and gives the increment.
    pub(super) fn grant(&mut self, id: u32) -> u32 {
        let room = self.spare();
        let granted = self.on_stream(id, |stream| {
            let increment = stream.grant_due(room)?;
            stream.credit = stream.credit.saturating_add(increment);
            Some(increment)
        });
        granted.flatten().unwrap_or(0)
    }

    pub(super) fn grant_if_due(&mut self, id: u32) {
        if self.closed.is_some() {
            return;
        }
        if let Some(stream) = self.streams.get(&id)
            && !stream.peer_finished
            && stream.broken.is_none()
        {
            let increment = self.grant(id);
            if increment > 0 {
                let frame = Header::new(Kind::WindowUpdate, Flags::NONE, id, increment);
                if let Err(reason) = self.answer(frame) {
                    self.close(reason);
                }
            }
        }
    }

    /// Reads at most `max` octets of a stream.
    ///
    /// # Errors
    ///
    /// [`StreamError`], after all that came before it.
    pub fn recv(&mut self, id: u32, max: usize) -> Result<Received, StreamError> {
        let Some(stream) = self.streams.get(&id) else {
            return Err(StreamError::Closed);
        };
        if stream.broken == Some(StreamError::Closed) {
            return Err(StreamError::Closed);
        }
        if let Some(Some(octets)) = self.on_stream(id, |stream| stream.pop(max)) {
            self.grant_if_due(id);
            return Ok(Received::Octets(octets));
        }
        let Some(stream) = self.streams.get(&id) else {
            return Err(StreamError::Closed);
        };
        match (&stream.broken, stream.peer_finished, &self.closed) {
            (_, true, _) => Ok(Received::End),
            (Some(e), ..) => Err(e.clone()),
            (None, false, Some(reason)) => Err(StreamError::Session(reason.clone())),
            (None, false, None) => Ok(Received::Nothing),
        }
    }

    /// How many octets of `wanted` the stream may write now; 0 where it has to wait for [`Event::Writable`].
    fn admit(&mut self, id: u32, wanted: usize) -> Result<usize, StreamError> {
        if let Some(reason) = &self.closed {
            return Err(StreamError::Session(reason.clone()));
        }
        let Some(stream) = self.streams.get_mut(&id) else {
            return Err(StreamError::Closed);
        };
        if let Some(e) = &stream.broken {
            return Err(e.clone());
        }
        if stream.finished {
            return Err(StreamError::Closed);
        }
        if stream.send_credit == 0 || wanted == 0 {
            return Ok(0);
        }
        let budget = self.config.write_budget.max(1);
        let queued = self.out.queued();
        if stream.turn {
            // A turn that was not used at once must not add up with others.
            if queued >= budget.saturating_mul(2) {
                if !stream.waiting {
                    stream.waiting = true;
                    self.waiting.push_front(id);
                }
                return Ok(0);
            }
        } else if queued >= budget || !self.waiting.is_empty() {
            if !stream.waiting {
                stream.waiting = true;
                self.waiting.push_back(id);
            }
            return Ok(0);
        }
        stream.turn = false;
        let n = wanted.min(stream.send_credit as usize).min(TURN);
        stream.send_credit -= u32::try_from(n).unwrap_or(0);
        Ok(n)
    }

    /// Queues the beginning of `data` and takes it from there; gives its length, 0 where the stream has to wait.
    ///
    /// # Errors
    ///
    /// [`StreamError`]; `data` is as it was.
    pub fn send(&mut self, id: u32, data: &mut Bytes) -> Result<usize, StreamError> {
        let n = self.admit(id, data.len())?;
        if n > 0 {
            self.out.data(id, Flags::NONE, data.split_to(n));
        }
        Ok(n)
    }

    /// As [`Core::send`], for octets that have to be copied.
    ///
    /// # Errors
    ///
    /// [`StreamError`].
    pub fn send_slice(&mut self, id: u32, data: &[u8]) -> Result<usize, StreamError> {
        let n = self.admit(id, data.len())?;
        if let Some(data) = data.get(..n)
            && n > 0
        {
            self.out.data(id, Flags::NONE, Bytes::copy_from_slice(data));
        }
        Ok(n)
    }
}
