//! Pieces of memory with their headers: allocated, shared between processes, or handed over by the program.

use std::{
    any::Any,
    fmt,
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};

use memmap2::{MmapMut, MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};

use crate::{
    copy,
    header::{Header, SHORT},
};

/// Data of which every pattern of bytes is a value, so that a peer may write any.
pub trait Plain: bytemuck::Pod + Send + Sync {}
impl<T: bytemuck::Pod + Send + Sync> Plain for T {}

/// How far the header of a shared segment reaches. Its bytes begin on a page of their own, unless they fit into the header.
const HEADER: usize = 4096;

/// What a copy asked for does not lie within the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBounds {
    /// Where the copy begins.
    pub offset: usize,
    /// How many bytes it has.
    pub length: usize,
    /// How many bytes there are.
    pub size: usize,
}

/// A piece of memory and its header.
///
/// It is read and written by copy, as if by relaxed atomics, by any number of threads and processes. Only who holds it
/// alone, and never gave its file to anybody, can borrow its bytes.
pub struct Memory {
    data: *mut u8,
    size: usize,
    header: *const Header,
    /// The file of a shared segment.
    file: Option<File>,
    /// Whether another process may have mapped the file.
    given: AtomicBool,
    owner: Owner,
}

/// What keeps the bytes where they are. Moving any of these moves no byte.
#[expect(dead_code, reason = "most of it is held only to be dropped")]
enum Owner {
    /// Pages of our own.
    Pages { pages: MmapMut, kept: Box<Header> },
    /// A header and the bytes, which other processes may map if there is a file.
    Segment { whole: MmapRaw },
    /// The program's own buffer, whatever its type.
    Buffer { buffer: Box<dyn Any + Send>, kept: Box<Header> },
}

// SAFETY: the bytes and the header stay where they are for as long as `owner` lives, which is as long as this does.
// Through `&Memory` both are only reached by atomics or by `copy`, which is as if by atomics; through `&mut Memory`,
// which nobody else holds, by ordinary accesses, and never once `given` says that another process may have them.
unsafe impl Send for Memory {}
// SAFETY: see above.
unsafe impl Sync for Memory {}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("size", &self.size)
            .field("shared", &self.file.is_some())
            .finish_non_exhaustive()
    }
}

impl Memory {
    /// New memory, zeroed, on pages of its own.
    pub fn zeroed(size: usize) -> io::Result<Self> {
        if size <= SHORT {
            let page = MmapRaw::from(MmapOptions::new().len(HEADER).map_anon()?);
            let memory = Self::within(page, None, size);
            memory.header().size.store(size as u64, SeqCst);
            return Ok(memory);
        }
        let mut data = MmapOptions::new().len(size.max(1)).map_anon()?;
        let header = Box::new(Header::new(size));
        let (data_at, header_at) = (data.as_mut_ptr(), &raw const *header);
        let owner = Owner::Pages { pages: data, kept: header };
        Ok(Self { data: data_at, size, header: header_at, file: None, given: AtomicBool::new(false), owner })
    }

    /// The program's own buffer. [`Memory::into_buffer`] gives it back.
    pub fn of<T: Plain>(mut buffer: Vec<T>) -> Self {
        let size = size_of_val(buffer.as_slice());
        let header = Box::new(Header::new(size));
        let (data, header_at) = (buffer.as_mut_ptr().cast(), &raw const *header);
        let owner = Owner::Buffer { buffer: Box::new(buffer), kept: header };
        Self { data, size, header: header_at, file: None, given: AtomicBool::new(false), owner }
    }

    /// The buffer that was handed over, if it was one of this type; otherwise the memory as it was.
    pub fn into_buffer<T: Plain>(self) -> Result<Vec<T>, Self> {
        let Self { data, size, header, file, given, owner } = self;
        match owner {
            Owner::Buffer { buffer, kept } => match buffer.downcast::<Vec<T>>() {
                Ok(buffer) => Ok(*buffer),
                Err(buffer) => {
                    Err(Self { data, size, header, file, given, owner: Owner::Buffer { buffer, kept } })
                }
            },
            owner => Err(Self { data, size, header, file, given, owner }),
        }
    }

    /// A new shared segment, zeroed: a file in memory, sealed, so that nobody can cut it short under a reader.
    pub fn segment(size: usize) -> io::Result<Self> {
        let file = rustix::fs::memfd_create("cairn-slot", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let whole = size.checked_add(HEADER).ok_or(io::ErrorKind::OutOfMemory)?;
        rustix::fs::ftruncate(&file, whole as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let memory = Self::map(file.into(), whole)?;
        memory.header().size.store(size as u64, SeqCst);
        Ok(memory)
    }

    /// The segment of another process, from its file: refused when it could be cut short, or is none of ours.
    pub fn open(file: OwnedFd) -> io::Result<Self> {
        let seals = rustix::fs::fcntl_get_seals(&file)?;
        let whole = usize::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or_default();
        if !seals.contains(SealFlags::SHRINK) || whole < HEADER {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let memory = Self::map(file.into(), whole)?;
        if memory.header().size.load(SeqCst) != memory.size as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        memory.given.store(true, SeqCst);
        Ok(memory)
    }

    fn map(file: File, whole: usize) -> io::Result<Self> {
        let all = MmapOptions::new().len(whole).map_raw(&file)?;
        Ok(Self::within(all, Some(file), whole - HEADER))
    }

    /// Of a mapping that begins with a header, and has room for `size` bytes behind it.
    fn within(all: MmapRaw, file: Option<File>, size: usize) -> Self {
        let base = all.as_mut_ptr();
        let begin = if size <= SHORT { std::mem::offset_of!(Header, short) } else { HEADER };
        // SAFETY: the mapping has `HEADER + size` bytes, or at least `HEADER`, within which `SHORT` bytes are the field's.
        let data = unsafe { base.add(begin) };
        // All zeroes is a header with nothing counted, and a page is aligned for it.
        #[expect(clippy::cast_ptr_alignment, reason = "a mapping begins on a page")]
        let header = base.cast::<Header>().cast_const();
        let owner = Owner::Segment { whole: all };
        Self { data, size, header, file, given: AtomicBool::new(false), owner }
    }

    /// How many bytes there are.
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The counters, and what waits for them.
    #[inline]
    pub fn header(&self) -> &Header {
        // SAFETY: it lives as long as `owner`; it consists of atomics alone, so that others may write it.
        unsafe { &*self.header }
    }

    /// Says that the bytes from `offset` on are written soon, and what arrives counted; a hint.
    #[inline]
    pub fn soon_written(&self, offset: usize) {
        copy::soon_written(self.data.wrapping_add(offset));
        self.soon_counted();
    }

    /// Says that what arrives here is counted soon; a hint.
    #[inline]
    pub fn soon_counted(&self) {
        copy::soon_written(self.header.cast());
    }

    /// The file of a shared segment, to be given to other processes. From now on nobody borrows the bytes.
    pub fn give(&self) -> Option<BorrowedFd<'_>> {
        self.given.store(true, SeqCst);
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// The bytes, for who holds this memory alone; none once another process may have it.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if *self.given.get_mut() {
            return None;
        }
        // SAFETY: `&mut self`, and no other process has the file: nobody else reaches these bytes. They are
        // initialised: zeroed pages, or a buffer of plain data, in which every pattern of bytes is a value.
        Some(unsafe { std::slice::from_raw_parts_mut(self.data, self.size) })
    }

    #[inline]
    fn check(&self, offset: usize, length: usize) -> Result<(), OutOfBounds> {
        match offset.checked_add(length) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(OutOfBounds { offset, length, size: self.size }),
        }
    }

    /// Copies from here into `bytes`.
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
        self.check(offset, bytes.len())?;
        // SAFETY: checked; `bytes` is the caller's alone, so it cannot overlap.
        unsafe { copy::copy(bytes.as_mut_ptr(), self.data.add(offset), bytes.len()) };
        Ok(())
    }

    /// Copies `bytes` to here.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        self.check(offset, bytes.len())?;
        // SAFETY: checked; nobody writes `bytes` while they are borrowed, so they are not this memory, which is
        // lent only by `bytes_mut`, that is while nobody can call this.
        unsafe { copy::copy(self.data.add(offset), bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Sets `length` bytes to `byte`.
    pub fn fill(&self, offset: usize, byte: u8, length: usize) -> Result<(), OutOfBounds> {
        self.check(offset, length)?;
        // SAFETY: checked.
        unsafe { copy::fill(self.data.add(offset), byte, length) };
        Ok(())
    }

    /// Copies `length` bytes from `source`.
    ///
    /// A copy between two places of one memory that overlap is refused with the bounds of this one.
    #[inline]
    pub fn copy_from(
        &self,
        offset: usize,
        source: &Self,
        source_offset: usize,
        length: usize,
    ) -> Result<(), OutOfBounds> {
        self.check(offset, length)?;
        source.check(source_offset, length)?;
        let same = self.data == source.data;
        if same && length > 0 && offset < source_offset + length && source_offset < offset + length {
            return Err(OutOfBounds { offset, length, size: self.size });
        }
        // SAFETY: both checked; two memories do not overlap, except two mappings of one segment, in which every
        // access is as if by relaxed atomics, so that bytes mix and nothing else happens.
        unsafe { copy::copy(self.data.add(offset), source.data.add(source_offset), length) };
        Ok(())
    }

    /// Sends bytes of here through a socket; answers how many the kernel took. `waits` says whether it may wait for
    /// room.
    pub fn send(&self, to: BorrowedFd<'_>, offset: usize, length: usize, waits: bool) -> io::Result<usize> {
        self.check(offset, length).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = libc::MSG_NOSIGNAL | if waits { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: checked. The kernel reads the bytes as another process would, to whom racing writes are bytes that
        // mix.
        let sent = unsafe { libc::send(to.as_raw_fd(), self.data.add(offset).cast(), length, flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Receives bytes from a socket to here; answers how many came, and 0 at its end. `waits` says whether it waits for
    /// the first.
    pub fn receive(
        &self,
        from: BorrowedFd<'_>,
        offset: usize,
        length: usize,
        waits: bool,
    ) -> io::Result<usize> {
        self.check(offset, length).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = if waits { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: checked. The kernel writes the bytes as another process would: whoever reads them meanwhile does so
        // by copy, and sees bytes that mix.
        let came = unsafe { libc::recv(from.as_raw_fd(), self.data.add(offset).cast(), length, flags) };
        usize::try_from(came).map_err(|_| io::Error::last_os_error())
    }

    pub(crate) fn pages(&self) -> (*mut u8, usize) {
        (self.data, self.size)
    }
}

/// Whether something comes from a socket within so long, or ever; its end is something.
pub fn comes_within(from: BorrowedFd<'_>, time: Option<Duration>) -> io::Result<bool> {
    let mut looked = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let time = time.map(|time| libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    });
    let until = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both are places of our own, which the kernel reads and writes until it returns; no signal mask is given.
    match unsafe { libc::ppoll(&raw mut looked, 1, until, std::ptr::null()) } {
        -1 => Err(io::Error::last_os_error()),
        ready => Ok(ready > 0),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_buffer_comes_back_with_what_was_copied_into_it() {
        let memory = Memory::of(vec![1_u32, 2, 3]);
        memory.write(4, &9_u32.to_ne_bytes()).unwrap();
        let memory = memory.into_buffer::<u64>().unwrap_err();
        assert_eq!(memory.into_buffer::<u32>().unwrap(), [1, 9, 3]);
    }

    #[test]
    fn what_a_peer_writes_into_a_segment_is_seen_and_its_bytes_are_not_lent_any_more() {
        // Bytes within the header, all of them, and bytes on pages of their own.
        for size in [1, SHORT, SHORT + 1, 4096] {
            let mut ours = Memory::segment(size).unwrap();
            assert_eq!(ours.bytes_mut().unwrap(), vec![0; size]);
            let file = ours.give().unwrap().try_clone_to_owned().unwrap();
            assert!(ours.bytes_mut().is_none());
            let theirs = Memory::open(file).unwrap();
            theirs.write(0, &vec![0xff; size]).unwrap();
            theirs.header().count_received();
            let mut bytes = vec![0; size];
            ours.read(0, &mut bytes).unwrap();
            let header = ours.header();
            let others = [&header.lock, &header.sent.0, &header.secret[0]].map(|word| word.load(SeqCst));
            assert_eq!((bytes, header.received.load(SeqCst), others), (vec![0xff; size], 1, [0; 3]));
            assert_eq!(header.size.load(SeqCst), size as u64);
        }
    }

    #[test]
    fn a_file_that_could_be_cut_short_is_refused() {
        let file = rustix::fs::memfd_create("x", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&file, 8192).unwrap();
        assert!(Memory::open(file.as_fd().try_clone_to_owned().unwrap()).is_err());
        // Sealed, but with a header that says something else.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        assert!(Memory::open(file).is_err());
    }

    #[test]
    fn what_is_sent_from_memory_is_received_into_memory_and_never_beyond_it() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let (from, to) = (Memory::of(vec![1_u8, 2, 3, 4]), Memory::zeroed(4).unwrap());
        assert_eq!(from.send(ours.as_fd(), 1, 3, true).unwrap(), 3);
        assert!(
            from.send(ours.as_fd(), 2, 3, true).is_err() && to.receive(theirs.as_fd(), 4, 1, true).is_err()
        );
        assert_eq!(to.receive(theirs.as_fd(), 0, 4, true).unwrap(), 3);
        let mut bytes = [0; 4];
        to.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [2, 3, 4, 0]);
        assert!(!comes_within(theirs.as_fd(), Some(Duration::ZERO)).unwrap());
        assert!(to.receive(theirs.as_fd(), 0, 4, false).is_err());
        drop(ours);
        assert!(comes_within(theirs.as_fd(), None).unwrap());
        let to = Memory::zeroed(4).unwrap();
        assert_eq!(to.receive(theirs.as_fd(), 0, 4, true).unwrap(), 0);
    }

    #[test]
    fn nothing_is_copied_out_of_bounds() {
        let memory = Memory::zeroed(10).unwrap();
        let other = Memory::zeroed(20).unwrap();
        assert_eq!(memory.write(8, b"abc"), Err(OutOfBounds { offset: 8, length: 3, size: 10 }));
        assert!(memory.read(usize::MAX, &mut [0]).is_err());
        assert!(memory.copy_from(0, &other, 15, 6).is_err() && memory.copy_from(5, &other, 0, 6).is_err());
        assert!(memory.copy_from(0, &memory, 3, 4).is_err() && memory.copy_from(0, &memory, 4, 4).is_ok());
    }

    #[test]
    fn racing_copies_never_tear_an_aligned_word() {
        let shared = Memory::zeroed(8 * 1024).unwrap();
        let patterns = [Memory::of(vec![0_u64; 1024]), Memory::of(vec![u64::MAX; 1024])];
        std::thread::scope(|threads| {
            for pattern in &patterns {
                threads.spawn(|| (0..200).for_each(|_| shared.copy_from(0, pattern, 0, 8 * 1024).unwrap()));
            }
            let mut words = vec![0_u64; 1024];
            for _ in 0..200 {
                shared.read(0, bytemuck::cast_slice_mut(&mut words)).unwrap();
                assert!(words.iter().all(|&word| word == 0 || word == u64::MAX));
            }
        });
    }
}
