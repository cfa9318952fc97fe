//! Tab-separated values.

use super::{columns, subject, write_name};
use crate::dnstap::DecodeReason;
use crate::fields::Field;
use crate::format::{Entry, Kind, Line, Shape};

/// The format.
pub static KIND: Kind = Kind {
    name: "tsv",
    aliases: &[],
    about: "chosen fields separated by tabs, their names in the first line",
    extension: "tsv",
    shape: Shape::Lines,
    has_local_times: false,
    has_fields: true,
    make: |settings| Ok(Box::new(Tsv(columns(settings)?))),
};

struct Tsv(Vec<Field>);

impl Line for Tsv {
    fn begin(&mut self, out: &mut Vec<u8>) {
        for (index, field) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(b'\t');
            }
            write_name(out, field);
        }
        out.push(b'\n');
    }

    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        let mut subject = subject(&entry)?;
        for (index, field) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(b'\t');
            }
            if let Some(value) = field.of(&mut subject) {
                value.write(out);
            }
        }
        out.push(b'\n');
        Ok(())
    }
}
