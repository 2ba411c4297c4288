//! How often limits refuse what would please: what exchanges are worth follows from it.

/// Pleasing moves after which half of them are forgotten.
const WINDOW: u32 = 4096;

/// Moves that pleased lately, and how many of them slots, resources or relations refused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refusals {
    pleasing: u32,
    refused: u32,
}

impl Refusals {
    /// Counts a move that would please.
    #[inline]
    pub fn note(&mut self, refused: bool) {
        self.pleasing += 1;
        self.refused += u32::from(refused);
        if self.pleasing == WINDOW {
            (self.pleasing, self.refused) = (self.pleasing / 2, self.refused / 2);
        }
    }

    /// Whether most are refused: then units are full, as exclusive devices are, and exchanges are the way on.
    #[inline]
    pub fn are_the_rule(self) -> bool {
        2 * self.refused > self.pleasing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_the_rule_is_forgotten() {
        let mut refusals = Refusals::default();
        assert!(!refusals.are_the_rule(), "nothing was refused yet");
        (0..100_000).for_each(|_| refusals.note(true));
        assert!(refusals.are_the_rule());
        (0..WINDOW).for_each(|_| refusals.note(false));
        assert!(!refusals.are_the_rule());
    }
}
