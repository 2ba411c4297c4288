//! Binding memory to a NUMA domain: the one call of Linux that has no safe form elsewhere.

use std::io;

use crate::Memory;

/// `MPOL_BIND` of mbind(2).
const BIND: libc::c_int = 2;

/// Has the pages of `memory` come from NUMA domain `domain`. Call it before the first byte is written.
pub fn bind(memory: &Memory, domain: u32) -> io::Result<()> {
    let (data, size) = memory.pages();
    let page = 4096;
    let begin = data.addr().next_multiple_of(page);
    let end = (data.addr() + size) / page * page;
    if end <= begin {
        return Ok(());
    }
    let mut mask = [0_u64; 16];
    let word = mask.get_mut(domain as usize / 64).ok_or(io::ErrorKind::InvalidInput)?;
    *word = 1 << (domain % 64);
    // SAFETY: the range lies within pages that `memory` owns, the mask has as many bits as is said, and mbind changes
    // where pages come from, not what is in them.
    let answer = unsafe {
        libc::syscall(libc::SYS_mbind, begin, end - begin, BIND, mask.as_ptr(), 64 * mask.len(), 0)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_that_is_not_there_is_refused() {
        let memory = Memory::zeroed(1 << 20).unwrap();
        assert!(bind(&memory, 1_000).is_err() && bind(&memory, 100_000).is_err());
    }
}
