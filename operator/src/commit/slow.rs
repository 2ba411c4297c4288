//! Which decisions were made while another was on its way for long.

use std::sync::atomic::{AtomicU64, Ordering};

/// Decisions that were on their way for so long that others were made meanwhile.
#[derive(Default)]
pub struct Late {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Late {
    /// One is late from now on.
    pub fn begins(&self) {
        self.begun.fetch_add(1, Ordering::AcqRel);
    }

    /// One that was late is written, or is not.
    pub fn ends(&self) {
        self.ended.fetch_add(1, Ordering::AcqRel);
    }

    /// How many have ended.
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether any was on its way at some moment since so many had ended.
    pub fn since(&self, ended: u64) -> bool {
        self.begun.load(Ordering::Acquire) > ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `b` one is late, `e` it has ended, `w` a write begins, `?` it ends: whether it was beside a late one.
    fn beside(text: &str) -> String {
        let (late, mut ended) = (Late::default(), 0);
        let mut said = String::new();
        for letter in text.chars() {
            match letter {
                'b' => late.begins(),
                'e' => late.ends(),
                'w' => ended = late.ended(),
                _ => said.push(if late.since(ended) { 'y' } else { 'n' }),
            }
        }
        said
    }

    #[test]
    fn a_write_beside_one_that_is_late_is_told() {
        for (text, expected) in [
            ("w?", "n"),
            ("bw?", "y"),
            ("wb?", "y"),
            ("bwe?", "y"),
            ("wbe?", "y"),
            ("bew?", "n"),
            ("bbew?", "y"),
            ("bbeew?", "n"),
        ] {
            assert_eq!(beside(text), expected, "{text}");
        }
    }
}
