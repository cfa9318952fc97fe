//! Entry for fuzzing and property tests: any octets as an expression.

use super::{Expression, Filter};
use crate::dnstap::DnstapView;
use crate::fields::Subject;

/// Reads `octets` as an expression. Panics when what is read does not read back from its own text, or when an error has
/// no place. For fuzz targets and tests.
#[doc(hidden)]
pub fn fuzz_expression(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    let expression: Expression = match text.parse() {
        Ok(expression) => expression,
        Err(error) => {
            let error: super::FilterError = error;
            assert!(error.span.start <= text.len() && !error.what.is_empty());
            assert!(
                error.to_string().starts_with("column ") || error.to_string().starts_with("line ")
            );
            return assert_eq!(error.shown().lines().count(), 2);
        }
    };
    let shown = expression.to_string();
    let again: Expression = match shown.parse() {
        Ok(again) => again,
        Err(error) => panic!("{shown}: {error}"),
    };
    assert_eq!(again.to_string(), shown, "from {text:?}");
    let view = DnstapView::default();
    let mut verdicts = [expression, again].map(|expression| {
        let mut filter = Filter::new(&expression);
        filter.matches(&mut Subject::new(&view))
    });
    verdicts.sort_unstable();
    assert_eq!(verdicts.first(), verdicts.last());
}
