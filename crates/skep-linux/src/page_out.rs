//! Memory that was read once and is not needed again.

use std::io;

/// Gives the pages of `bytes` back to the kernel, which reads them again from where they came when
/// somebody looks. Pages at the ends that belong to others as well stay.
///
/// # Errors
///
/// If the kernel has no such call.
pub fn page_out(bytes: &[u8]) -> io::Result<()> {
    let page = rustix::param::page_size();
    let range = bytes.as_ptr_range();
    let start = range.start.addr().next_multiple_of(page);
    let length = (range.end.addr() / page * page).saturating_sub(start);
    if length == 0 {
        return Ok(());
    }
    let first = range.start.with_addr(start);
    // SAFETY: `MADV_PAGEOUT` changes no content: pages are written to where they came from, or
    // dropped if they are there unchanged, and read again at the next access. The range is within
    // `bytes`, which are borrowed for the time of the call, so it is mapped.
    let answer = unsafe { libc::madvise(first.cast_mut().cast(), length, libc::MADV_PAGEOUT) };
    if answer == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_paged_out_is_the_same_afterwards() {
        let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        let before = bytes.clone();
        page_out(&bytes).unwrap();
        assert_eq!(bytes, before);
    }

    #[test]
    fn less_than_a_page_stays_where_it_is() {
        page_out(&[]).unwrap();
        page_out(b"a few bytes").unwrap();
    }
}
