//! What was meant by a word that is not known.

/// The candidate that was probably meant: nearest by edit distance, or with the same words in another order, or one
/// that holds the word or is held by it. `None` when nothing is near.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(word);
    let near = 1 + folded.chars().count() / 4;
    let ranked = candidates.into_iter().filter_map(|candidate| {
        let other = fold(candidate);
        let distance = strsim::damerau_levenshtein(&folded, &other);
        let rank = if distance <= near {
            distance
        } else if sorted_words(&folded) == sorted_words(&other) {
            near
        } else if holds(&folded, &other) || holds(&other, &folded) {
            near + distance
        } else {
            return None;
        };
        Some((rank, candidate))
    });
    // The first of equals, which is the order a person wrote the list in.
    ranked
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, candidate)| candidate)
}

/// Words of other programs, and of habit, for our keys: (what was written, the key). The first key that is known where
/// the word was written is meant.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("address", "uri"),
    ("bind", "uri"),
    ("listen", "uri"),
    ("socket", "uri"),
    ("path", "uri"),
    ("path", "to"),
    ("address", "to"),
    ("uri", "to"),
    ("target", "to"),
    ("remote", "to"),
    ("listen", "address"),
    ("uri", "address"),
    ("bind", "address"),
    ("dir", "path"),
    ("directory", "path"),
    ("folder", "path"),
    ("frame_max", "data_frame_max"),
    ("max_frame_size", "data_frame_max"),
    ("rcvbuf", "receive_buffer"),
    ("permissions", "socket_mode"),
    ("chmod", "socket_mode"),
    ("user", "owner"),
    ("allowed_networks", "allow"),
    ("acl", "allow"),
    ("rate", "one_in"),
    ("overflow", "policy"),
    ("when_full", "policy"),
    ("fsync", "sync"),
    ("threads", "worker_threads"),
    ("workers", "worker_threads"),
    ("state_dir", "data_dir"),
    ("logging", "log"),
    ("source", "listener"),
    ("input", "listener"),
    ("sink", "output"),
    ("transform", "stage"),
];

/// The key that was probably meant by `word`, from the keys known in its place.
pub fn key<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let folded = fold(word);
    let other_name = OTHER_NAMES.iter().filter(|(other, _)| *other == folded);
    let by_habit = other_name
        .filter_map(|(_, key)| known.iter().find(|k| *k == key))
        .next();
    by_habit
        .copied()
        .or_else(|| closest(word, known.iter().copied()))
}

fn fold(word: &str) -> String {
    word.to_lowercase().replace(['-', ' ', '.'], "_")
}

fn sorted_words(folded: &str) -> Vec<&str> {
    let mut words: Vec<&str> = folded.split('_').collect();
    words.sort_unstable();
    words
}

/// Whether `part`, when it is long enough to mean something, is a part of `whole`.
fn holds(whole: &str, part: &str) -> bool {
    part.len() >= 4 && whole.contains(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let keys = [
            "data_frame_max",
            "control_frame_max",
            "connections_max",
            "compression",
            "uri",
            "mode",
            "name",
        ];
        for (word, want) in [
            ("data_frame_maxx", Some("data_frame_max")),
            ("dataframemax", Some("data_frame_max")),
            ("max_connections", Some("connections_max")),
            ("data-frame-max", Some("data_frame_max")),
            ("Compress", Some("compression")),
            ("max_frame_size", Some("data_frame_max")),
            ("url", Some("uri")),
            ("bind", Some("uri")),
            ("modes", Some("mode")),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(key(word, &keys), want, "{word}");
        }
    }

    #[test]
    fn prefers_the_nearest_of_several() {
        assert_eq!(
            closest("droop_newest", ["block", "drop_oldest", "drop_newest"]),
            Some("drop_newest")
        );
        assert_eq!(
            closest("newest", ["block", "drop_newest", "drop_oldest"]),
            Some("drop_newest")
        );
    }
}
