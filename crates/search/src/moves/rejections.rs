//! How often limits reject improving moves, which decides whether swaps are tried first.

/// Improving moves after which half of them are forgotten.
const WINDOW: u32 = 4096;

/// Recent improving moves, and how many of them slots, resources or relations rejected.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rejections {
    improving: u32,
    rejected: u32,
}

impl Rejections {
    /// Counts an improving move.
    #[inline]
    pub fn record(&mut self, rejected: bool) {
        self.improving += 1;
        self.rejected += u32::from(rejected);
        if self.improving == WINDOW {
            (self.improving, self.rejected) = (self.improving / 2, self.rejected / 2);
        }
    }

    /// Whether most are rejected: units are full, as exclusive devices are, and only swaps help.
    #[inline]
    pub fn are_frequent(self) -> bool {
        2 * self.rejected > self.improving
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_rejections_are_forgotten() {
        let mut rejections = Rejections::default();
        assert!(!rejections.are_frequent(), "nothing was rejected yet");
        (0..100_000).for_each(|_| rejections.record(true));
        assert!(rejections.are_frequent());
        (0..WINDOW).for_each(|_| rejections.record(false));
        assert!(!rejections.are_frequent());
    }
}
