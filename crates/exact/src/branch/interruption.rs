//! Why a search ends early.

/// Why a search ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// `stop` or `found` ended it.
    Stopped,
    /// It exceeds the limit of work or memory.
    LimitExceeded,
}

/// Charges work to what is left, at most all of it.
pub(crate) fn charge(left: &mut u64, work: u64) -> Result<(), Interruption> {
    let enough = *left >= work;
    *left = left.saturating_sub(work);
    if enough { Ok(()) } else { Err(Interruption::LimitExceeded) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excessive_work_is_charged_completely() {
        let mut left = 10;
        assert_eq!((charge(&mut left, 7), left), (Ok(()), 3));
        assert_eq!((charge(&mut left, 7), left), (Err(Interruption::LimitExceeded), 0));
    }
}
