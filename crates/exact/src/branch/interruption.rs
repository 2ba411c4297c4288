//! What ends a search early.

/// Why a part of the search ends before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// `stop` said so, or `found` did.
    Stopped,
    /// It takes more work, or more room, than it is worth.
    TooMuch,
}

/// Takes work off what is left; where that is less, nothing is left.
pub(crate) fn charge(left: &mut u64, work: u64) -> Result<(), Interruption> {
    let enough = *left >= work;
    *left = left.saturating_sub(work);
    if enough { Ok(()) } else { Err(Interruption::TooMuch) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_charged_too() {
        let mut left = 10;
        assert_eq!((charge(&mut left, 7), left), (Ok(()), 3));
        assert_eq!((charge(&mut left, 7), left), (Err(Interruption::TooMuch), 0));
    }
}
